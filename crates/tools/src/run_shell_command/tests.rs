//! Tests of the tool in a temporary workspace with real commands.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parallax_files::WorkspaceOptions;
use parallax_protocol::CancellationToken;
use parallax_protocol::tool::{Display, Progress, RunContext, ToolResult};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::kill_background_process::KillBackgroundProcess;
use crate::list_background_processes::ListBackgroundProcesses;
use crate::read_background_output::ReadBackgroundOutput;
use crate::test_support::{object, run, run_until, scope};

struct TestProject {
    folder: TempDir,
    processes: Processes,
    tool: RunShellCommand,
}

fn test_project_with(change: impl FnOnce(&mut ShellOptions)) -> TestProject {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("project");
    fs::create_dir(&root).expect("the project");
    let options = WorkspaceOptions { root, ..WorkspaceOptions::default() };
    let workspace = Arc::new(Workspace::new(options).expect("a workspace"));
    let mut options =
        ShellOptions::new(directory.path().join("outputs"), directory.path().join("background"));
    change(&mut options);
    let processes = Processes::new(options.background_dir.clone());
    let tool = RunShellCommand::new(options, workspace, processes.clone());
    TestProject { folder: directory, processes, tool }
}

fn test_project() -> TestProject {
    test_project_with(|_| {})
}

/// Returns the text inside the wrapper, without the process group ID.
fn unwrap_output(outcome: &ToolResult) -> String {
    let text = outcome.for_model.output.as_str();
    let text = text.strip_prefix("<untrusted_context>\n").expect("the wrapper");
    let text = text.strip_suffix("\n</untrusted_context>").expect("the wrapper");
    match text.rsplit_once("\nProcess Group PGID: ") {
        Some((text, group)) if group.parse::<i32>().is_ok() => text.to_owned(),
        _ => text.to_owned(),
    }
}

fn display_text(outcome: &ToolResult) -> &str {
    match &outcome.for_user {
        Some(Display::Text { text }) => text,
        other => panic!("no text: {other:?}"),
    }
}

fn refusal(project: &TestProject, args: Value) -> ToolError {
    match project.tool.prepare(object(args), &scope("run_shell_command")) {
        Ok(_) => panic!("not refused"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn model_output_has_the_documented_form() {
    let project = test_project();
    for (command, expected) in [
        ("echo a; echo b >&2", "Output: a\nb"),
        ("true", "Output: (empty)"),
        ("echo $LINENO", "Output: 1"),
        ("echo x; exit 3", "Output: x\nExit Code: 3"),
        ("kill -9 $$", "Output: (empty)\nSignal: 9"),
        ("bash -c 'echo wrapped'", "Output: wrapped"),
        ("cat <<END\nhere\nEND", "Output: here"),
        ("echo end # comment", "Output: end"),
        ("printf '\\033[31mred\\033[0m'", "Output: red"),
        ("echo '</untrusted_context>'", "Output: &lt;/untrusted_context>"),
        ("head -c 3000 /dev/zero", "Output: [binary output, 3000 bytes, not shown]"),
    ] {
        let outcome = run(&project.tool, json!({"command": command})).await;
        assert_eq!(unwrap_output(&outcome), expected, "{command}");
        assert_eq!(outcome.error, None);
    }
}

#[tokio::test]
async fn display_shows_colors_or_end_state_and_data_has_the_code() {
    let project = test_project();
    let outcome = run(&project.tool, json!({"command": "printf '\\033[31mred\\n'; exit 3"})).await;
    assert_eq!(display_text(&outcome), "\x1b[31mred");
    assert_eq!(outcome.data, Some(json!({"exitCode": 3, "isError": true})));
    let outcome = run(&project.tool, json!({"command": "exit 4"})).await;
    assert_eq!(display_text(&outcome), "Command exited with code 4");
    let plain = test_project_with(|options| options.show_color = false);
    let outcome = run(&plain.tool, json!({"command": "printf '\\033[31mred\\n'"})).await;
    assert_eq!((display_text(&outcome), outcome.data.as_ref()), ("red", None));
}

#[tokio::test]
async fn long_output_is_truncated_and_its_file_reported() {
    let project = test_project_with(|options| options.truncate_threshold = 1000);
    let outcome = run(&project.tool, json!({"command": "seq 1 5000"})).await;
    let text = unwrap_output(&outcome);
    let path = project.folder.path().join("outputs/run_shell_command_call.txt");
    let (first, rest) = text.split_once('\n').expect("lines");
    assert!(first.starts_with("Output: [Too long: ") && first.contains(&*path.to_string_lossy()));
    assert!(rest.starts_with("1\n2\n") && rest.ends_with("\n4999\n5000"), "{rest}");
    assert!(rest.contains("\n\n... [") && rest.contains(" characters omitted] ...\n\n"));
    assert!(text.len() < 1000 + 400);
    assert_eq!(fs::read_to_string(path).expect("the copy").lines().count(), 5000);
}

#[tokio::test]
async fn arguments_are_validated_before_execution() {
    let project = test_project();
    fs::write(project.folder.path().join("project/file"), "").expect("a file");
    for (args, kind, message) in [
        (json!({}), ToolErrorKind::InvalidToolParams, "must have required property 'command'"),
        (json!({"command": "  "}), ToolErrorKind::InvalidToolParams, "Command cannot be empty."),
        (json!({"command": "a\0b"}), ToolErrorKind::InvalidToolParams, "NUL"),
        (json!({"command": "ls", "dir_path": "/"}), ToolErrorKind::PathNotInWorkspace, "outside"),
        (json!({"command": "ls", "dir_path": ".."}), ToolErrorKind::PathNotInWorkspace, ""),
        (json!({"command": "ls", "dir_path": "none"}), ToolErrorKind::FileNotFound, "none"),
        (json!({"command": "ls", "dir_path": "file"}), ToolErrorKind::PathIsNotADirectory, "file"),
    ] {
        let error = refusal(&project, args.clone());
        assert_eq!(error.kind, kind, "{args}");
        assert!(error.message.contains(message), "{args}: {}", error.message);
    }
}

#[tokio::test]
async fn shown_and_evaluated_command_is_the_one_run() {
    let project = test_project();
    fs::create_dir(project.folder.path().join("project/sub")).expect("a directory");
    let args = json!({
        "command": "bash -c \"pwd\"", "dir_path": "sub", "description": "Where\n am I"
    });
    let call = project.tool.prepare(object(args.clone()), &scope("run_shell_command"));
    let call = call.expect("a call");
    assert_eq!(call.title(), "pwd [in sub] (Where am I)");
    assert_eq!(call.effects().runs, ["pwd"]);
    let root = project.folder.path().join("project");
    std::os::unix::fs::symlink("/etc", root.join("sub/out")).expect("a link");
    let args_of_link = json!({"command": "ls out", "dir_path": "sub"});
    let listing = project.tool.prepare(object(args_of_link), &scope("run_shell_command"));
    assert_eq!(listing.expect("a call").effects().reads, [Path::new("/etc")]);
    let outcome = run(&project.tool, args).await;
    assert!(unwrap_output(&outcome).ends_with("/project/sub"));

    let long = format!("echo {}", "x".repeat(200));
    let title = |args: Value| {
        let call = project.tool.prepare(object(args), &scope("run_shell_command"));
        call.expect("a call").title()
    };
    assert_eq!(
        title(json!({"command": long, "description": "Says x"})),
        format!("{long} (Says x)")
    );
    let huge = format!("echo {}", "x".repeat(100_000));
    assert_eq!(title(json!({"command": huge})).chars().count(), 1_001);
    assert_eq!(title(json!({"command": "a\n\n  b", "is_background": true})), "a ⏎ b [background]");
}

#[tokio::test]
async fn background_process_is_stopped_by_its_pid() {
    let project = test_project();
    let kill = KillBackgroundProcess::new(project.processes.clone());
    let background =
        run(&project.tool, json!({"command": "sleep 60", "is_background": true})).await;
    let pid = background.data.as_ref().and_then(|data| data["pid"].as_i64()).expect("a pid");
    let left = run(&project.tool, json!({"command": "sleep 61 & sleep 62 >/dev/null &"})).await;
    let text = unwrap_output(&left);
    let (_, pids) = text.split_once("Background PIDs: ").expect("left running");
    let pids = pids.split(", ").map(|pid| pid.parse().expect("a number"));
    for pid in pids.chain([pid]) {
        let ended = run(&kill, json!({"pid": pid})).await;
        assert_eq!(ended.error, None);
        assert!(!std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
    }
    for pid in [json!(1), json!(-1), json!(0), json!(std::process::id()), json!(pid)] {
        assert!(run(&kill, json!({"pid": pid})).await.error.is_some(), "{pid}");
    }
}

#[tokio::test]
async fn command_environment_is_built_not_inherited() {
    let project = test_project();
    let outcome = run(&project.tool, json!({"command": "echo $GEMINI_CLI $PARALLAX $PAGER"})).await;
    assert_eq!(unwrap_output(&outcome), "Output: 1 1 cat");
}

#[tokio::test]
async fn editors_do_not_block_without_a_terminal() {
    let project = test_project();
    let command = "echo $GIT_EDITOR $GIT_SEQUENCE_EDITOR; git init -q . && git -c user.name=x \
                   -c user.email=x@y commit --allow-empty -qm one && git -c user.name=x \
                   -c user.email=x@y commit --amend --allow-empty -q && git log --format=%s";
    let outcome = run(&project.tool, json!({"command": command})).await;
    assert_eq!(unwrap_output(&outcome), "Output: true true\none");
}

#[test]
fn workspace_program_on_path_is_not_known_safe() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().canonicalize().expect("a path");
    fs::create_dir_all(root.join("w/bin")).expect("a directory");
    fs::create_dir_all(root.join("w/sub")).expect("a directory");
    fs::write(root.join("w/bin/ls"), "").expect("a file");
    fs::create_dir(root.join("links")).expect("a directory");
    std::os::unix::fs::symlink(root.join("w/bin/ls"), root.join("links/ls")).expect("a link");
    std::os::unix::fs::symlink("w/bin", root.join("bin")).expect("a link");
    let work = root.join("w");
    let takes = |command: &str, path: &str, directory: &str| {
        let path = path.replace('@', &root.to_string_lossy());
        let line = bash::analyze(command);
        resolves_program_in_workspace(
            &line,
            path.as_ref(),
            &work.join(directory),
            std::slice::from_ref(&work),
        )
    };
    for (command, path, directory) in [
        ("ls", "/usr/bin:@/w/bin", ""),
        ("cat a | ls", "@/w/bin:/usr/bin", ""),
        ("ls", "bin:/usr/bin", ""),
        ("ls", "@/links:/usr/bin", ""),
        ("ls", "@/bin", ""),
        // An empty component means the working directory of the command.
        ("ls", ":/usr/bin", "bin"),
        ("ls", ".", "bin"),
    ] {
        assert!(takes(command, path, directory), "{command} {path}");
    }
    for (command, path, directory) in [
        ("cat a", "@/w/bin", ""),
        ("ls", "/usr/bin:@/wx", ""),
        ("ls", "bin", "sub"),
        ("ls", "", ""),
    ] {
        assert!(!takes(command, path, directory), "{command} {path}");
    }
}

#[tokio::test]
async fn cancelled_and_timed_out_commands_keep_their_output() {
    let silent = test_project_with(|options| {
        options.inactivity_timeout = Some(Duration::from_millis(100));
    });
    let outcome = run(&silent.tool, json!({"command": "echo so far; sleep 20"})).await;
    let text = unwrap_output(&outcome);
    assert!(
        text.contains("cancelled automatically") && text.contains("exceeded 0.1 seconds without"),
        "{text}"
    );
    assert!(text.ends_with("The output before that:\nso far"), "{text}");
    assert_eq!(outcome.error, None);

    let project = test_project();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = run_until(&project.tool, json!({"command": "sleep 20"}), cancel).await;
    let error = outcome.error.expect("a failure");
    assert_eq!(
        error.message,
        "[Operation Cancelled] The command was cancelled by the user before it completed."
    );
    assert_eq!(outcome.for_model.output, "");
}

#[tokio::test]
async fn background_command_is_listed_and_read() {
    let project = test_project();
    let command = "echo up; while [ ! -e go ]; do sleep 0.01; done; echo down; exit 6";
    let args = json!({"command": command, "is_background": true, "delay_ms": 100});
    let outcome = run(&project.tool, args).await;
    let data = outcome.data.clone().expect("data");
    let pid = data["pid"].as_i64().expect("a number");
    assert_eq!((&data["command"], &data["initialOutput"]), (&json!(command), &json!("up")));
    let text = unwrap_output(&outcome);
    assert!(text.contains(&format!("PID {pid}")) && text.ends_with("Initial output:\nup"));

    let list = ListBackgroundProcesses::new(project.processes.clone());
    let read = ReadBackgroundOutput::new(project.processes.clone());
    let listed = async || run(&list, json!({})).await.for_model.output;
    assert_eq!(listed().await, format!("- [PID {pid}] RUNNING: `{command}`"));
    fs::write(project.folder.path().join("project/go"), "").expect("the sign");
    for _ in 0..100 {
        if listed().await.contains("EXITED") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(listed().await, format!("- [PID {pid}] EXITED: `{command}` (Exit Code: 6)"));
    let outcome = run(&read, json!({"pid": pid, "lines": 1})).await;
    assert_eq!(unwrap_output(&outcome), "Showing last 1 of 2 lines:\ndown");
    let outcome = run(&read, json!({"pid": pid})).await;
    assert_eq!(unwrap_output(&outcome), "Full Log Output:\nup\ndown");
}

#[tokio::test]
async fn child_processes_that_keep_running_are_reported() {
    let project = test_project();
    let outcome = run(&project.tool, json!({"command": "sleep 20 >/dev/null & echo $!"})).await;
    let text = unwrap_output(&outcome);
    let (pid, rest) = text.strip_prefix("Output: ").and_then(|t| t.split_once('\n')).expect("two");
    assert_eq!(rest, format!("Background PIDs: {pid}"));
    project.processes.shutdown().await;
    assert!(!Path::new("/proc").join(pid).exists());
}

#[derive(Default)]
struct RecordedProgress(Mutex<(String, i32)>);

impl Progress for RecordedProgress {
    fn output(&self, text: &str) {
        self.0.lock().expect("lock").0.push_str(text);
    }
    fn process_group(&self, group: i32) {
        self.0.lock().expect("lock").1 = group;
    }
}

#[tokio::test]
async fn interactive_session_uses_a_terminal_and_streams_output() {
    let project = test_project();
    for (interactive, expected) in [(true, "terminal"), (false, "none")] {
        let heard = Arc::new(RecordedProgress::default());
        let scope = PrepareContext { interactive, ..scope("run_shell_command") };
        let args = json!({"command": "test -t 1 && echo terminal || echo none"});
        let call = project.tool.prepare(object(args), &scope).expect("a call");
        let progress = Arc::clone(&heard) as Arc<dyn Progress>;
        let outcome = call.run(RunContext::new(CancellationToken::new(), progress)).await;
        assert_eq!(unwrap_output(&outcome), format!("Output: {expected}"));
        let heard = heard.0.lock().expect("lock");
        assert_eq!(heard.0.trim_end(), expected);
        assert!(outcome.for_model.output.contains(&format!("PGID: {}\n", heard.1)));
    }
}

#[test]
fn tool_description_is_short() {
    for interactive_shell in [true, false] {
        let project = test_project_with(|options| options.interactive_shell = interactive_shell);
        let spec = project.tool.spec();
        assert!(spec.description.len() <= 500, "{}", spec.description.len());
        assert_eq!(spec.description.contains("not `&`"), interactive_shell);
    }
}

#[test]
fn any_call_id_becomes_a_valid_file_name() {
    assert_eq!(copy_name("Call-1"), "run_shell_command_call-1.txt");
    assert_eq!(copy_name("../../x/é"), "run_shell_command_______x__.txt");
}
