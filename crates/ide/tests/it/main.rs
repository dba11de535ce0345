//! Tests of the connection to a companion over real HTTP.
#![expect(clippy::expect_used, reason = "a test says what it expects")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parallax_ide::{
    ClosedDiff, Companion, CompanionContext, CompanionSnapshot, CompanionStatus, DiffDecision,
    DisconnectReason, DiscoveryOptions, diagnose,
};
use parallax_protocol::context::EditorContext as _;
use serde_json::json;
use testkit::companion::{CompanionFault, CompanionSetup, TestCompanion};

const LIMIT: Duration = Duration::from_secs(10);

struct TestProject {
    root: tempfile::TempDir,
}

impl TestProject {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["tmp", "project", "other"] {
            std::fs::create_dir(root.path().join(name)).expect("created");
        }
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().expect("a path").join(name)
    }

    fn setup(&self) -> CompanionSetup {
        CompanionSetup::new(&self.path("tmp"), &self.path("project"))
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("TMPDIR".into(), self.path("tmp").into_os_string()),
            // Proxies must not be used for this machine.
            ("HTTP_PROXY".into(), "http://127.0.0.1:1".into()),
        ]
    }

    fn connect(&self) -> Companion {
        Companion::start(&self.path("project"), self.variables(), "1.0", true)
    }

    /// Writes a port file without a server.
    fn write_stale_port_file(&self, pid: u32, port: u16) {
        let directory = self.path("tmp").join("gemini/ide");
        std::fs::create_dir_all(&directory).expect("created");
        let content =
            json!({"port": port, "workspacePath": self.path("project"), "authToken": "x"});
        let path = directory.join(format!("gemini-ide-server-{pid}-{port}.json"));
        std::fs::write(path, content.to_string()).expect("written");
    }
}

async fn wait(companion: &Companion, holds: impl Fn(&CompanionSnapshot) -> bool) {
    let mut changes = companion.changes();
    let waiting = changes.wait_for(|snapshot| holds(snapshot));
    let is_met = tokio::time::timeout(LIMIT, waiting).await.is_ok();
    assert!(is_met, "still {:?}", companion.snapshot());
}

fn reason(snapshot: &CompanionSnapshot) -> Option<DisconnectReason> {
    match &snapshot.status {
        CompanionStatus::Disconnected(reason) => Some(reason.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn open_files_become_a_message_and_later_only_changes() {
    let project = TestProject::new();
    let editor = TestCompanion::start(project.setup()).await.expect("a companion");
    let file = |line| {
        json!([{"path": "/p/a.rs", "timestamp": 2, "isActive": true, "selectedText": "fn",
            "cursor": {"line": line, "character": 1}}, {"path": "/p/b.rs", "timestamp": 1}])
    };
    editor.set_open_files(file(1));
    let companion = project.connect();
    let context = CompanionContext::new(companion.clone());
    assert_eq!(context.message(), None, "nothing is waited for");
    wait(&companion, |snapshot| snapshot.files.files.len() == 2).await;
    assert_eq!(companion.snapshot().is_trusted, Some(true));
    assert!(companion.snapshot().can_diff);
    let message = context.message().expect("a message");
    assert!(message.contains("\"activeFile\"") && message.contains("/p/b.rs"), "{message}");
    assert_eq!(context.message(), None, "nothing has changed");
    editor.set_open_files(file(9));
    wait(&companion, |snapshot| {
        snapshot.files.active().and_then(|file| file.cursor).is_some_and(|cursor| cursor.line == 9)
    })
    .await;
    let message = context.message().expect("a message");
    assert!(message.contains("cursorMoved") && !message.contains("/p/b.rs"), "{message}");
    context.reset();
    assert!(context.message().is_some_and(|message| message.contains("otherOpenFiles")));
    assert_eq!(editor.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn diffs_are_decided_in_the_editor() {
    let project = TestProject::new();
    let editor = TestCompanion::start(project.setup()).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    let path = project.path("project").join("a.txt");
    let name = path.display().to_string();
    let (diff, decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    assert!(editor.wait(LIMIT, |editor| editor.diffs().contains_key(&name)).await);
    // The editor shows one diff at a time.
    let other = project.path("project").join("b.txt");
    let (second, second_decision) = companion.open_diff(&other, "b".into()).expect("diffs");
    editor.edits(&path, "edited\n");
    assert_eq!(editor.diffs().len(), 1);
    editor.accept_diff(&path);
    let decided = tokio::time::timeout(LIMIT, decision).await.expect("in time");
    assert_eq!(decided, Ok(DiffDecision::Accepted { text: "edited\n".into() }));
    assert_eq!(diff.take_text().await, ClosedDiff::NotOpen, "it is decided");
    let name = other.display().to_string();
    assert!(editor.wait(LIMIT, |editor| editor.diffs().contains_key(&name)).await);
    editor.reject_diff(&other);
    let decided = tokio::time::timeout(LIMIT, second_decision).await.expect("in time");
    assert_eq!(decided, Ok(DiffDecision::Rejected));
    drop(second);
}

#[tokio::test]
async fn terminal_decision_uses_the_text_of_the_editor() {
    let project = TestProject::new();
    let editor = TestCompanion::start(project.setup()).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    let path = project.path("project").join("a.txt");
    let name = path.display().to_string();
    let (diff, _decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    assert!(editor.wait(LIMIT, |editor| editor.diffs().contains_key(&name)).await);
    editor.edits(&path, "edited\n");
    assert_eq!(diff.take_text().await, ClosedDiff::Text("edited\n".into()));
    let (diff, _decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    assert!(editor.wait(LIMIT, |editor| editor.diffs().contains_key(&name)).await);
    drop(diff);
    assert!(editor.wait(LIMIT, |editor| editor.diffs().is_empty()).await, "it is closed");
}

#[tokio::test]
async fn diff_decision_arrives_even_if_another_client_gets_the_response() {
    let project = TestProject::new();
    let editor = TestCompanion::start(project.setup()).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    let later = project.connect();
    wait(&later, CompanionSnapshot::is_connected).await;
    let path = project.path("project").join("a.txt");
    let name = path.display().to_string();
    for accepts in [true, false] {
        let (_diff, decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
        assert!(editor.wait(LIMIT, |editor| editor.diffs().contains_key(&name)).await);
        editor.edits(&path, "edited\n");
        let expected = match accepts {
            true => {
                editor.accept_diff(&path);
                DiffDecision::Accepted { text: "edited\n".into() }
            }
            false => {
                editor.reject_diff(&path);
                DiffDecision::Rejected
            }
        };
        let decided = tokio::time::timeout(LIMIT, decision).await.expect("in time");
        assert_eq!(decided, Ok(expected));
    }
    let (diff, _decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    assert!(editor.wait(LIMIT, |editor| editor.diffs().contains_key(&name)).await);
    editor.edits(&path, "edited\n");
    assert_eq!(diff.take_text().await, ClosedDiff::Text("edited\n".into()));
    assert_eq!(editor.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn dead_editor_ends_its_diff() {
    let project = TestProject::new();
    let editor = TestCompanion::start(project.setup()).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    let path = project.path("project").join("a.txt");
    let (diff, decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    assert!(editor.wait(LIMIT, |editor| !editor.diffs().is_empty()).await);
    editor.stop_abruptly();
    let decided = tokio::time::timeout(LIMIT, decision).await.expect("in time");
    assert!(matches!(decided, Ok(DiffDecision::Unavailable { .. })), "{decided:?}");
    assert_eq!(diff.take_text().await, ClosedDiff::NotOpen);
    wait(&companion, |snapshot| matches!(reason(snapshot), Some(DisconnectReason::Lost { .. })))
        .await;
    assert_eq!(companion.snapshot().files.files.len(), 0);
    assert!(companion.open_diff(&path, "new\n".into()).is_none());
    // A reloaded window has another port.
    let _editor = TestCompanion::start(project.setup()).await.expect("a companion");
    wait(&companion, CompanionSnapshot::is_connected).await;
}

#[tokio::test]
async fn hanging_editor_adds_no_text_and_causes_only_a_short_delay() {
    let project = TestProject::new();
    let setup = project.setup().with_fault(CompanionFault::HangsInTools);
    let editor = TestCompanion::start(setup).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    let path = project.path("project").join("a.txt");
    let (diff, _decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    assert!(editor.wait(LIMIT, |editor| !editor.diffs().is_empty()).await);
    let since = Instant::now();
    assert_eq!(diff.take_text().await, ClosedDiff::Unknown);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test]
async fn editor_without_tools_provides_only_context() {
    let project = TestProject::new();
    let setup = project.setup().with_fault(CompanionFault::HasNoTools);
    let _editor = TestCompanion::start(setup).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    assert!(!companion.snapshot().can_diff);
}

#[tokio::test]
async fn rejected_diff_is_decided_in_the_terminal() {
    let project = TestProject::new();
    let setup = project.setup().with_fault(CompanionFault::RefusesDiffs);
    let _editor = TestCompanion::start(setup).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    let path = project.path("project").join("a.txt");
    let (_diff, decision) = companion.open_diff(&path, "new\n".into()).expect("diffs");
    let decided = tokio::time::timeout(LIMIT, decision).await.expect("in time");
    assert_eq!(decided, Ok(DiffDecision::Unavailable { reason: "no diffs here".into() }));
}

#[tokio::test]
async fn stale_files_and_a_silent_port_do_not_hide_the_editor() {
    let project = TestProject::new();
    for port in 1..=10 {
        project.write_stale_port_file(std::process::id(), port);
    }
    // Among equal candidates, the one with the larger process id comes first.
    let mute =
        CompanionSetup { pid: u32::MAX >> 1, fault: CompanionFault::Mute, ..project.setup() };
    let mute = TestCompanion::start(mute).await.expect("a companion");
    let editor = TestCompanion::start(CompanionSetup { pid: 1, ..project.setup() }).await;
    let editor = editor.expect("a companion");
    let mut variables = project.variables();
    variables.push(("GEMINI_CLI_IDE_PID".into(), (u32::MAX >> 1).to_string().into()));
    let companion = Companion::start(&project.path("project"), variables, "1.0", true);
    wait(&companion, CompanionSnapshot::is_connected).await;
    assert_eq!(mute.requests(), 1, "the mute port was tried first");
    assert!(editor.wait(LIMIT, TestCompanion::is_connected).await);
}

#[tokio::test]
async fn window_with_this_directory_is_chosen() {
    let project = TestProject::new();
    let other = CompanionSetup::new(&project.path("tmp"), &project.path("other"));
    let other = TestCompanion::start(other).await.expect("a companion");
    let companion = project.connect();
    wait(&companion, |snapshot| {
        matches!(reason(snapshot), Some(DisconnectReason::DirectoryMismatch { .. }))
    })
    .await;
    let own = TestCompanion::start(project.setup()).await.expect("a companion");
    companion.connect();
    wait(&companion, CompanionSnapshot::is_connected).await;
    assert!(own.wait(LIMIT, TestCompanion::is_connected).await);
    assert_eq!(other.requests(), 0);
    companion.disconnect();
    wait(&companion, |snapshot| reason(snapshot) == Some(DisconnectReason::Disabled)).await;
    assert!(own.wait(LIMIT, |own| !own.is_connected()).await, "the stream is closed");
}

#[tokio::test]
async fn diagnosis_names_each_server() {
    let project = TestProject::new();
    project.write_stale_port_file(std::process::id(), 1);
    let other = CompanionSetup::new(&project.path("tmp"), &project.path("other"));
    let _other = TestCompanion::start(other).await.expect("a companion");
    let options =
        DiscoveryOptions { directory: project.path("project"), variables: project.variables() };
    let diagnosis = diagnose(&options, "1.0").await;
    assert!(!diagnosis.is_reachable);
    let text = diagnosis.to_string();
    assert!(text.contains("127.0.0.1:1/mcp") && text.contains("do not contain this one"), "{text}");
    let _own = TestCompanion::start(project.setup()).await.expect("a companion");
    let diagnosis = diagnose(&options, "1.0").await;
    assert!(diagnosis.is_reachable, "{diagnosis}");
    assert!(diagnosis.to_string().contains("works, with diffs"), "{diagnosis}");
}

#[tokio::test]
async fn diagnosis_is_quick_and_short_with_many_servers() {
    let project = TestProject::new();
    for port in 1..400 {
        project.write_stale_port_file(std::process::id(), port);
    }
    // They accept connections and never respond.
    let mute: Vec<std::net::TcpListener> =
        (0..12).map(|_| std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port")).collect();
    for listener in &mute {
        project.write_stale_port_file(
            std::process::id(),
            listener.local_addr().expect("an address").port(),
        );
    }
    let options =
        DiscoveryOptions { directory: project.path("project"), variables: project.variables() };
    let started_at = Instant::now();
    let diagnosis = diagnose(&options, "1.0").await;
    // One after the other, the mute servers alone take 24 seconds.
    assert!(started_at.elapsed() < LIMIT, "{:?}", started_at.elapsed());
    let (listed, all) = (diagnosis.servers.len(), diagnosis.servers.len() + diagnosis.omitted);
    assert!(listed <= 48 && all >= 411, "{listed} of {all}");
    let text = diagnosis.to_string();
    assert!(
        text.contains(&format!("And {} more, which are not tried.", diagnosis.omitted)),
        "{text}"
    );
}

#[tokio::test]
async fn ide_server_can_be_a_program() {
    let project = TestProject::new();
    let update = json!({"jsonrpc": "2.0", "method": "ide/contextUpdate", "params":
        {"workspaceState": {"openFiles": [{"path": "/p/a.rs", "timestamp": 1}]}}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}});
    let tools = json!({"jsonrpc": "2.0", "id": 2, "result": {"tools": []}});
    let script = format!(
        "read -r line; echo '{hello}'; read -r line; read -r line; echo '{tools}'; \
         echo '{update}'; read -r line; echo \"$line\" > ended"
    );
    let mut variables = project.variables();
    let mut set = |name: &str, value: String| variables.push((name.into(), value.into()));
    set("PATH", "/usr/bin:/bin".into());
    set("GEMINI_CLI_IDE_WORKSPACE_PATH", project.path("project").display().to_string());
    set("GEMINI_CLI_IDE_SERVER_STDIO_COMMAND", "/bin/sh".into());
    set("GEMINI_CLI_IDE_SERVER_STDIO_ARGS", json!(["-c", script]).to_string());
    let companion = Companion::start(&project.path("project"), variables, "1.0", true);
    wait(&companion, |snapshot| snapshot.files.files.len() == 1).await;
    assert!(!companion.snapshot().can_diff);
    companion.disconnect();
    wait(&companion, |snapshot| reason(snapshot) == Some(DisconnectReason::Disabled)).await;
    // Its input is closed, so it ends.
    let ended = project.path("project").join("ended");
    let since = Instant::now();
    while !ended.exists() {
        assert!(since.elapsed() < LIMIT, "the program still runs");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
