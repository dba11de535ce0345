use parallax_protocol::policy::ApprovalMode::{Default, Plan, Yolo};
use parallax_protocol::policy::PolicyEngine;

use crate::world::policy;

#[test]
fn only_user_excluded_tools_are_hidden() {
    let shell = "run_shell_command";
    for (options, tool, mode, hidden) in [
        ("", shell, Default, false),
        ("", "write_file", Plan, false),
        ("", "ask_user", Default, false),
        ("exclude=web_fetch", "web_fetch", Default, true),
        ("exclude=web_fetch", "web_fetch", Yolo, true),
        ("exclude=WebFetchTool", "web_fetch", Default, true),
        ("exclude=search_file_content", "grep_search", Default, true),
        ("exclude=web_fetch", "read_file", Default, false),
        ("exclude=mcp_git_*", "mcp_git_push", Default, true),
        ("exclude=run_shell_command(rm)", shell, Default, false),
        ("allowed=run_shell_command(git)", shell, Default, false),
        ("core=read_file;run_shell_command(git)", shell, Default, false),
        ("core=read_file", shell, Default, true),
        ("core=read_file", "read_file", Yolo, false),
        ("core=", "read_file", Default, true),
        ("core=read_file", shell, Plan, false),
        ("core=read_file allowed=web_fetch", "web_fetch", Default, false),
        ("exclude=web_fetch allowed=web_fetch", "web_fetch", Default, true),
    ] {
        assert_eq!(
            policy(options).is_tool_denied(tool, &[], mode, false),
            hidden,
            "{options} {tool} {mode:?}"
        );
    }
    let aliases = ["read_file".to_owned()];
    assert!(policy("exclude=read_file").is_tool_denied("my_reader", &aliases, Default, true));
}

#[test]
fn entries_that_cannot_be_narrowed_are_reported() {
    assert_eq!(policy("allowed=run_shell_command(git log)").notices(), Vec::<String>::new());
    let policy = policy("allowed=read_file(src)");
    let [notice] = &policy.notices()[..] else { panic!("{:?}", policy.notices()) };
    assert!(notice.contains("`read_file(src)` in `tools.allowed` is ignored"), "{notice}");
}
