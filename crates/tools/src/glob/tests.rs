use std::fs;

use parallax_files::WorkspaceOptions;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::test_support::{object, run, scope};

struct TestTree {
    folder: TempDir,
    tool: Glob,
}

impl TestTree {
    fn new(files: &[&str]) -> Self {
        let directory = TempDir::new().expect("a directory");
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(&path, "x").expect("a file");
        }
        let options = WorkspaceOptions { root: directory.path().into(), ..Default::default() };
        let workspace = Arc::new(Workspace::new(options).expect("a workspace"));
        Self { folder: directory, tool: Glob::new(workspace, Duration::from_secs(30)) }
    }

    fn set_age(&self, file: &str, hours: u64) {
        let time = SystemTime::now() - Duration::from_secs(hours * 3600);
        let file = fs::File::options().write(true).open(self.folder.path().join(file));
        file.expect("a file").set_modified(time).expect("a time");
    }

    /// Returns the found paths, relative to the root.
    async fn find(&self, args: Value) -> Vec<String> {
        let root = self.folder.path().canonicalize().expect("a path");
        let output = run(&self.tool, args).await.for_model.output;
        let paths = output.lines().skip(1);
        paths
            .map(|line| {
                line.strip_prefix(&format!("{}/", root.display())).unwrap_or(line).to_owned()
            })
            .collect()
    }
}

#[tokio::test]
async fn recently_modified_files_are_listed_first() {
    let tree = TestTree::new(&["a.rs", "b.rs", "c.rs", "d/e.rs", "f.txt"]);
    for (file, hours) in [("a.rs", 48), ("b.rs", 2), ("c.rs", 1), ("d/e.rs", 30)] {
        tree.set_age(file, hours);
    }
    assert_eq!(tree.find(json!({"pattern": "**/*.RS"})).await, ["c.rs", "b.rs", "a.rs", "d/e.rs"]);
    assert_eq!(tree.find(json!({"pattern": "*.rs"})).await, ["c.rs", "b.rs", "a.rs"]);
    let output = run(&tree.tool, json!({"pattern": "*.RS", "case_sensitive": true})).await;
    assert!(
        output.for_model.output.starts_with("No files found matching pattern \"*.RS\" within /")
    );
    let output = run(&tree.tool, json!({"pattern": "d/*"})).await.for_model.output;
    assert!(output.starts_with("Found 1 file(s) matching \"d/*\" within /"), "{output}");
    assert!(output.contains(", sorted by modification time (newest first):\n/"), "{output}");
}

#[tokio::test]
async fn glob_handles_ignored_files_dot_files_and_links() {
    let tree = TestTree::new(&[".git/config", ".env", "out/x.js", "src/y.js", "node_modules/z.js"]);
    fs::write(tree.folder.path().join(".gitignore"), "out\n").expect("a file");
    std::os::unix::fs::symlink(tree.folder.path(), tree.folder.path().join("loop"))
        .expect("a link");
    let mut found = tree.find(json!({"pattern": "**/*"})).await;
    found.sort();
    assert_eq!(found, [".env", ".gitignore", "src/y.js"]);
    let mut all = tree.find(json!({"pattern": "**/*.js", "respect_git_ignore": false})).await;
    all.sort();
    assert_eq!(all, ["out/x.js", "src/y.js"]);
}

#[tokio::test]
async fn existing_literal_name_is_matched_literally() {
    let tree =
        TestTree::new(&["app/[id]/page.tsx", "app/i/page.tsx", "app/{a,b}/c.ts", "x/a/y/c.ts"]);
    assert_eq!(tree.find(json!({"pattern": "app/[id]/page.tsx"})).await, ["app/[id]/page.tsx"]);
    assert_eq!(tree.find(json!({"pattern": "APP/I/*.tsx"})).await, ["app/i/page.tsx"]);
    assert_eq!(tree.find(json!({"pattern": "x/{a/y,b}/c.ts"})).await, ["x/a/y/c.ts"]);
    assert_eq!(tree.find(json!({"pattern": "{x/a,q}/**/*.ts"})).await, ["x/a/y/c.ts"]);
    let absolute = format!("{}/x/**", tree.folder.path().canonicalize().expect("a path").display());
    assert_eq!(tree.find(json!({"pattern": absolute})).await, ["x/a/y/c.ts"]);
    assert_eq!(tree.find(json!({"pattern": "*.ts", "dir_path": "x/a/y"})).await.len(), 1);
}

#[tokio::test]
async fn long_results_are_truncated_with_a_note() {
    let names: Vec<String> = (0..2_005).map(|n| format!("f{n:04}.t")).collect();
    let tree = TestTree::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let found = tree.find(json!({"pattern": "*.t"})).await;
    assert_eq!(found.len(), 2_001);
    assert!(found[2_000].starts_with("[5 more files"), "{}", found[2_000]);
}

#[test]
fn invalid_arguments_are_rejected() {
    let tree = TestTree::new(&["a"]);
    for (args, kind) in [
        (json!({}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": " "}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "[a"}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "*", "dir_path": "none"}), ToolErrorKind::FileNotFound),
        (json!({"pattern": "*", "dir_path": "a"}), ToolErrorKind::SearchPathNotADirectory),
        (json!({"pattern": "*", "dir_path": "/"}), ToolErrorKind::PathNotInWorkspace),
    ] {
        let error = tree.tool.prepare(object(args.clone()), &scope("glob")).err();
        assert_eq!(error.expect("a refusal").kind, kind, "{args}");
    }
}
