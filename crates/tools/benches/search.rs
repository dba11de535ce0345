//! Benchmarks `grep_search` and `glob` on a generated tree of 4,000 small files.
#![expect(clippy::expect_used, reason = "a bench ends at its first error")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax_files::{Workspace, WorkspaceOptions};
use parallax_protocol::CancellationToken;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{NoProgress, PrepareContext, RunContext, Tool};
use parallax_tools::glob::Glob;
use parallax_tools::grep_search::GrepSearch;
use serde_json::{Value, json};
use tempfile::TempDir;

const FILES: usize = 4_000;

fn main() {
    divan::main();
}

fn workspace() -> Arc<Workspace> {
    static TREE: OnceLock<(TempDir, Arc<Workspace>)> = OnceLock::new();
    let (_, workspace) = TREE.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        let text = "fn some_function(argument: &str) -> usize { argument.len() }\n".repeat(30);
        for number in 0..FILES {
            let parent = folder.path().join(format!("m{}/n{}", number % 20, number % 400));
            std::fs::create_dir_all(&parent).expect("folders");
            let text = format!("{text}const NUMBER_{number}: usize = {number};\n");
            std::fs::write(parent.join(format!("f{number}.rs")), text).expect("a file");
        }
        std::fs::write(folder.path().join(".gitignore"), "target\n*.o\n").expect("a file");
        std::fs::create_dir(folder.path().join(".git")).expect("a folder");
        let options = WorkspaceOptions { root: folder.path().into(), ..Default::default() };
        let workspace = Workspace::new(options).expect("a workspace");
        (folder, Arc::new(workspace))
    });
    Arc::clone(workspace)
}

fn bench(bencher: divan::Bencher<'_, '_>, tool: &dyn Tool, args: &Value) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let scope = PrepareContext {
        call: "call".into(),
        name: String::new(),
        mode: ApprovalMode::Default,
        interactive: false,
    };
    bencher.bench_local(|| {
        let Value::Object(args) = args.clone() else { unreachable!("an object") };
        let call = tool.prepare(args, &scope).expect("a call");
        let run = RunContext::new(CancellationToken::new(), Arc::new(NoProgress));
        runtime.block_on(call.run(run))
    });
}

#[divan::bench(args = ["NUMBER_3999:", "some_function", "(?-u)[a-z]+_[0-9]{5}"])]
fn grep(bencher: divan::Bencher<'_, '_>, pattern: &str) {
    let tool = GrepSearch::new(workspace(), Duration::from_secs(30));
    bench(bencher, &tool, &json!({"pattern": pattern}));
}

#[divan::bench(args = ["**/*.rs", "m7/**/f*7.rs", "**/*.none"])]
fn glob(bencher: divan::Bencher<'_, '_>, pattern: &str) {
    let tool = Glob::new(workspace(), Duration::from_secs(30));
    bench(bencher, &tool, &json!({"pattern": pattern}));
}
