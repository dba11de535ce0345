use std::fs;
use std::path::Path;
use std::time::Instant;

use parallax_files::WorkspaceOptions;
use parallax_protocol::CancellationToken;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::test_support::{object, run, run_until, scope};

fn tool(roots: &[&Path]) -> GrepSearch {
    let (root, additional) = roots.split_first().expect("a root");
    let additional = additional.iter().map(|path| path.to_path_buf()).collect();
    let options = WorkspaceOptions { root: root.to_path_buf(), additional, ..Default::default() };
    let workspace = Arc::new(Workspace::new(options).expect("a workspace"));
    GrepSearch::new(workspace, Duration::from_secs(30))
}

fn tree(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for (file, text) in files {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, text).expect("a file");
    }
    directory
}

async fn grep(directory: &TempDir, args: Value) -> String {
    run(&tool(&[directory.path()]), args).await.for_model.output
}

fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn context_lines_depend_on_the_number_of_matches() {
    let directory = tree(&[("a/x.txt", &numbered(200)), ("b.txt", "other\n")]);
    let output = grep(&directory, json!({"pattern": "LINE 100$"})).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        &lines[..4],
        [
            "Found 1 match for pattern \"LINE 100$\" in the workspace directory:",
            "---",
            "File: a/x.txt",
            "L50- line 50"
        ]
    );
    assert_eq!(lines[53], "L100: line 100");
    assert_eq!(&lines[103..], ["L150- line 150", "---"]);

    let output = grep(&directory, json!({"pattern": "line (3|100)$"})).await;
    assert!(output.contains("\nL1- line 1\n") && output.contains("\nL18- line 18\nL85- line 85\n"));
    assert!(
        output.contains("\nL3: line 3\n") && output.ends_with("\nL115- line 115\n---"),
        "{output}"
    );

    let args =
        json!({"pattern": "line 100$", "before": 1, "dir_path": "a", "include_pattern": "*.txt"});
    assert_eq!(
        grep(&directory, args).await,
        "Found 1 match for pattern \"line 100$\" in path \"a\" (filter: \"*.txt\"):\n---\n\
         File: x.txt\nL99- line 99\nL100: line 100\n---"
    );
}

#[tokio::test]
async fn first_hundred_matches_are_sorted_by_path() {
    let mut files = Vec::new();
    let names: Vec<String> = (0..300).map(|n| format!("d{}/f{n:03}", n % 7)).collect();
    let text = "hit\nno\nhit\n".repeat(10);
    for name in &names {
        files.push((name.as_str(), text.as_str()));
    }
    let directory = tree(&files);
    let output = grep(&directory, json!({"pattern": "hit"})).await;
    assert!(
        output.starts_with(
            "Found 100 matches for pattern \"hit\" in the workspace directory \
             (results limited to 100 matches for performance):\n---\nFile: d0/f000\nL1: hit\nL3: hit\nL4: hit\n"
        ),
        "{output}"
    );
    let shown: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("File: ")).collect();
    assert_eq!(shown, ["d0/f000", "d0/f007", "d0/f014", "d0/f021", "d0/f028"]);
    assert_eq!(output, grep(&directory, json!({"pattern": "hit"})).await);

    let limits =
        json!({"pattern": "hit", "max_matches_per_file": 1, "total_max_matches": 2, "after": 1});
    let output = grep(&directory, limits).await;
    assert!(
        output
            .ends_with("File: d0/f000\nL1: hit\nL2- no\n---\nFile: d0/f007\nL1: hit\nL2- no\n---"),
        "{output}"
    );

    let names = json!({"pattern": "hit", "names_only": true, "total_max_matches": 3});
    assert_eq!(
        grep(&directory, names).await,
        "Found 3 files with matches for pattern \"hit\" in the workspace directory \
         (results limited to 3 matches for performance):\nd0/f000\nd0/f007\nd0/f014"
    );
}

#[tokio::test]
async fn lines_and_files_can_be_excluded() {
    let directory = tree(&[
        (".git/HEAD", "word"),
        (".gitignore", "secret.txt\n"),
        (".env", "word"),
        (".hidden", "word .hidden"),
        ("app.log", "word in a log"),
        ("build/out.txt", "word built"),
        ("secret.txt", "word secret"),
        ("src/a.rs", "a word\nnot this Word\nA.C\n"),
    ]);
    let args = json!({"pattern": "word", "exclude_pattern": "NOT", "context": 0});
    let output = grep(&directory, args).await;
    assert!(
        output.ends_with(
            ":\n---\nFile: .hidden\nL1: word .hidden\n---\nFile: app.log\nL1: word in a log\n---\n\
             File: build/out.txt\nL1: word built\n---\nFile: src/a.rs\nL1: a word\n---\n\
             [Not searched: 1 ignored entry; `no_ignore` searches them. \
             1 entry that is protected from tools]"
        ),
        "{output}"
    );
    let args = json!({"pattern": "word", "no_ignore": true, "names_only": true});
    let output = grep(&directory, args).await;
    assert!(
        output.ends_with(
            "\n.hidden\napp.log\nbuild/out.txt\nsecret.txt\nsrc/a.rs\n\
             [Not searched: 1 entry that is protected from tools]"
        ),
        "protected files stay protected: {output}"
    );
    // Files that the user hides from agents stay protected.
    fs::write(directory.path().join(".geminiignore"), "secret.txt\nsrc/\n").expect("a file");
    let args = json!({"pattern": "word", "no_ignore": true, "names_only": true});
    let output = grep(&directory, args).await;
    let (found, note) = output.split_once("\n[").expect("a note");
    assert!(found.ends_with("\n.hidden\napp.log\nbuild/out.txt"), "{output}");
    assert_eq!(
        note,
        "Not searched: 2 entries that the user's ignore files hide. \
         1 entry that is protected from tools]"
    );
    for path in ["src", "src/a.rs", "secret.txt"] {
        let args = json!({"pattern": "word", "no_ignore": true, "dir_path": path});
        let call = tool(&[directory.path()]).prepare(object(args), &scope("grep_search"));
        let refused = call.err().expect("a refusal").message;
        assert!(refused.contains("ignored by configured ignore patterns"), "{path}: {refused}");
    }
    fs::remove_file(directory.path().join(".geminiignore")).expect("gone");
    let output = grep(&directory, json!({"pattern": "Word", "case_sensitive": true})).await;
    assert!(output.starts_with("Found 1 match"), "{output}");
    let output = grep(&directory, json!({"pattern": "a.c", "fixed_strings": true})).await;
    assert!(output.contains("L3: A.C"), "{output}");
    assert_eq!(
        grep(&directory, json!({"pattern": "nowhere", "include_pattern": "*.rs"})).await,
        "No matches found for pattern \"nowhere\" in the workspace directory (filter: \"*.rs\").\n\
         [Not searched: 1 ignored entry; `no_ignore` searches them. \
         1 entry that is protected from tools]"
    );
}

#[tokio::test]
async fn windows_line_endings_match_and_links_are_reported() {
    let directory = tree(&[
        ("crlf.c", "return 0;\r\n}\r\n\r\n"),
        ("lf.c", "return 0;\n}\n"),
        ("real/a.txt", "word\n"),
        ("links/keep", ""),
    ]);
    let links = directory.path().join("links");
    std::os::unix::fs::symlink("../real/a.txt", links.join("a")).expect("a link");
    std::os::unix::fs::symlink("missing", links.join("b")).expect("a link");
    for (pattern, count) in [("return 0;$", 2), ("^}$", 2), ("^$", 1), ("\\r$", 1), ("0;\\s*$", 2)]
    {
        let output = grep(&directory, json!({"pattern": pattern, "names_only": true})).await;
        assert!(output.starts_with(&format!("Found {count} file")), "{pattern}: {output}");
    }
    let output = grep(&directory, json!({"pattern": "word", "dir_path": "links"})).await;
    let note = "[Not searched: 1 symbolic link(s) (`a`); name one to search it]";
    assert!(output.ends_with(note), "{output}");
    let output = grep(&directory, json!({"pattern": "word"})).await;
    assert!(!output.contains("symbolic"), "{output}");
    std::os::unix::fs::symlink("/etc/hostname", links.join("c")).expect("a link");
    let output = grep(&directory, json!({"pattern": "word"})).await;
    assert!(
        output.ends_with("[Not searched: 1 symbolic link(s) out of the workspace (`links/c`)]"),
        "{output}"
    );
}

#[tokio::test]
async fn text_with_nul_and_other_encodings_is_searched() {
    let directory = tree(&[("late.ts", &("const a = 1;\n".repeat(8000) + "k = `\0`;\nlate()\n"))]);
    let put =
        |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).expect("a file");
    put("early.ts", b"hello token, quite long a line\0more\nmatch token\n");
    put("gbk.py", b"# \xb2\xe2\xca\xd4\xb1\xe0\xc2\xeb\nadd(1,2)\n# \xb2\xe2\xca\xd4\n");
    put("latin.c", b"// caf\xe9 und gr\xf6\xdfere \xc4pfel f\xfcr alle\nx = 1;\n");
    put("elf", b"\x7fELF\x02\x01\x01\0\0\0\0\xff token");
    let output = grep(&directory, json!({"pattern": "late\\(", "context": 0})).await;
    assert!(output.contains("L8002: late()"), "{output}");
    let output = grep(&directory, json!({"pattern": "token", "context": 0})).await;
    assert!(
        output.contains("L1: hello token, quite long a line\u{2400}more\nL2: match"),
        "{output}"
    );
    assert!(output.ends_with("[Not searched: 1 binary file(s) (`elf`)]"), "{output}");
    let output = grep(&directory, json!({"pattern": "测试", "context": 0})).await;
    assert!(output.contains("File: gbk.py\nL1: # 测试编码\nL3: # 测试\n"), "{output}");
    let output = grep(&directory, json!({"pattern": "CAFÉ", "context": 0})).await;
    assert!(output.contains("File: latin.c\nL1: // café und größere"), "{output}");
}

#[tokio::test]
async fn skipped_directories_are_reported_and_explicit_ones_searched() {
    let directory = tree(&[
        (".git/HEAD", ""),
        ("node_modules/x/index.js", "word"),
        ("lib/__pycache__/a", "word"),
        ("logs/a.log", "word"),
        (".gitignore", "*.tmp\nout/\n"),
        ("x.tmp", "word"),
        ("out/a", "word"),
    ]);
    let output = grep(&directory, json!({"pattern": "word", "names_only": true})).await;
    assert!(
        output.ends_with(
            ":\nlogs/a.log\n[Not searched: 2 ignored entries, `__pycache__`, `node_modules`; `no_ignore` \
             searches them]"
        ),
        "{output}"
    );
    for path in ["lib/__pycache__", "logs", "out", "node_modules", "node_modules/x/index.js"] {
        let output = grep(&directory, json!({"pattern": "word", "dir_path": path})).await;
        assert!(output.starts_with("Found 1 match"), "{path}: {output}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn name_that_is_not_utf8_is_searched() {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = tree(&[("ok.txt", "needle")]);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(directory.path().join(name), "needle").expect("a file");
    let output = grep(&directory, json!({"pattern": "needle"})).await;
    assert!(output.contains("File: caf\u{fffd}.txt") && output.contains("ok.txt"), "{output}");
}

#[tokio::test]
async fn unusual_files_are_skipped_safely() {
    let directory = tree(&[("bin", "\0needle"), ("utf16", ""), ("x\nFile: y", "needle\r\n")]);
    let path = |name: &str| directory.path().join(name);
    let units: Vec<u8> = "\u{feff}\nneedle ü\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(path("utf16"), units).expect("a file");
    let long = format!("needle\n{}\nneedle\n", "x".repeat(50_000_000));
    fs::write(path("long"), long).expect("a file");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe");
    std::os::unix::fs::symlink("/etc/passwd", path("link")).expect("a link");
    let output = grep(&directory, json!({"pattern": "needle|root", "context": 0})).await;
    assert!(
        output.ends_with(
            "\nFile: bin\nL1: \u{2400}needle\n---\nFile: long\nL1: needle\n---\nFile: utf16\n\
             L2: needle ü\n---\nFile: x\\nFile: y\nL1: needle\n---\n\
             [Not searched: 1 symbolic link(s) out of the workspace (`link`). \
             1 file(s) beyond an overlong line (`long`)]"
        ),
        "{output}"
    );
}

#[tokio::test]
async fn all_workspace_directories_are_searched() {
    let (one, two) = (tree(&[("a", "needle")]), tree(&[("b", "needle")]));
    let search = tool(&[one.path(), two.path()]);
    let output = run(&search, json!({"pattern": "needle"})).await.for_model.output;
    assert!(
        output
            .starts_with("Found 2 matches for pattern \"needle\" across 2 workspace directories:")
    );
    let path =
        |directory: &TempDir, name| directory.path().canonicalize().expect("a path").join(name);
    for path in [path(&one, "a"), path(&two, "b")] {
        assert!(output.contains(&format!("File: {}\n", path.display())), "{output}");
    }
}

#[tokio::test]
async fn stopped_search_returns_at_once() {
    let directory = TempDir::new().expect("a directory");
    for n in 0..200 {
        let text = "x".repeat(1_000_000) + "\n";
        fs::write(directory.path().join(format!("f{n}")), text).expect("a file");
    }
    let search = tool(&[directory.path()]);
    // A pattern without literals that is slow by design.
    let args = json!({"pattern": "(x?){30}y"});
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let timer = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        stop.cancel();
        Instant::now()
    });
    let outcome = run_until(&search, args.clone(), cancel).await;
    let late = timer.await.expect("the timer").elapsed();
    assert_eq!(outcome.for_model.output, "Search was cancelled.");
    assert!(late < Duration::from_millis(50), "{late:?}");

    let hasty = GrepSearch { limit: Duration::from_millis(1), ..search };
    let error = run(&hasty, args).await.error.expect("too late");
    assert_eq!(error.kind, ToolErrorKind::GrepExecutionError);
    assert!(error.message.contains("`dir_path`") && error.message.contains("`include_pattern`"));
}

#[test]
fn invalid_arguments_are_rejected() {
    let directory = tree(&[("a", "x")]);
    let search = tool(&[directory.path()]);
    for (args, kind) in [
        (json!({"pattern": ""}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "(a"}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "a\\nb"}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "a", "context": -1}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "a", "include_pattern": "[a"}), ToolErrorKind::InvalidToolParams),
        (json!({"pattern": "a", "dir_path": "none"}), ToolErrorKind::FileNotFound),
        (json!({"pattern": "a", "dir_path": ".."}), ToolErrorKind::PathNotInWorkspace),
    ] {
        let error = search.prepare(object(args.clone()), &scope("grep_search")).err();
        assert_eq!(error.expect("a refusal").kind, kind, "{args}");
    }
}
