//! Output of commands and dialogs.

use parallax_commands::built_in::{DocsLocation, InitResult};
use parallax_protocol::built_in_tools::built_in_tool;
use parallax_protocol::policy::ApprovalMode;
use parallax_sdk::{ContextTier, OpenSession};
use parallax_sessions::SessionChoice;

use crate::support::World;

#[test]
fn init_creates_an_empty_file_once() {
    let world = World::new();
    let launch = world.launch();
    assert!(
        matches!(parallax_commands::built_in::init(launch.directory()), Ok(InitResult::Prompt(text)) if text.contains("GEMINI.md"))
    );
    assert_eq!(world.read("project/GEMINI.md"), "");
    world.write("project/GEMINI.md", "mine");
    assert_eq!(
        parallax_commands::built_in::init(launch.directory()).expect("looked"),
        InitResult::AlreadyExists(world.project().join("GEMINI.md"))
    );
    assert_eq!(world.read("project/GEMINI.md"), "mine");
}

#[tokio::test]
async fn context_files_are_listed_and_a_memory_is_added() {
    let world = World::new();
    world.write("home/.gemini/GEMINI.md", "be brief");
    world.write("project/GEMINI.md", "use tabs");
    world.write("project/CLAUDE.md", "for another program");
    let registry = serde_json::json!({"projects": {world.project().display().to_string(): "mine"}});
    world.write("home/.gemini/projects.json", &registry.to_string());
    world.write("home/.gemini/tmp/mine/memory/MEMORY.md", "my own notes");
    let launch = world.launch();
    launch.context_sources().add_memory("I like tea").expect("added");
    let (session, _events) = world.open(SessionChoice::New);
    let files = session.context_files();
    let report: Vec<_> = files.iter().map(|f| (f.tier, f.text.trim())).collect();
    let added = "## Gemini Added Memories\n\n- I like tea";
    assert_eq!(
        report,
        [
            (ContextTier::Global, "be brief"),
            (ContextTier::Global, added),
            (ContextTier::Notes, "my own notes"),
            (ContextTier::Project, "use tabs"),
        ]
    );
    let hinted = |session: &OpenSession| {
        session.warnings.iter().filter(|text| text.contains("CLAUDE.md")).count()
    };
    assert_eq!(hinted(&session), 1, "{:?}", session.warnings);
    assert_eq!(session.directories(), [world.project()]);
    assert!(session.tools().iter().any(|tool| tool.name == "read_file"));
    session.close().await;
    let (again, _events) = world.open(SessionChoice::New);
    assert_eq!(hinted(&again), 0, "a hint comes once");
    again.close().await;
}

#[test]
fn models_rules_and_memories_are_listed() {
    let world = World::new();
    let rule =
        "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 10\nmodes = [\"plan\"]\n";
    world.write("home/.parallax/policies/mine.toml", rule);
    let launch = world.launch();
    let names: Vec<String> =
        launch.provider_manager().model_choices().into_iter().map(|choice| choice.name).collect();
    assert_eq!(names.first().map(String::as_str), Some("auto"));
    assert_eq!(launch.provider_manager().context_window("auto"), 1_048_576);
    let rows = parallax_sdk::policy_rules(&launch);
    let of = |mode| rows.iter().find(|(group, _)| *group == mode).map(|(_, rows)| rows);
    let plan = of(Some(ApprovalMode::Plan)).expect("rules of plan mode");
    assert!(plan.iter().any(|row| row.rule.contains("mine.toml")), "{plan:?}");
    assert!(of(None).is_some_and(|rows| !rows.is_empty()));
    let about = parallax_sdk::about::About::collect(&launch);
    assert_eq!((about.model.0.as_str(), about.auth.as_str()), ("auto", "none"));
    assert_eq!(about.sandbox, "off");
}

#[test]
fn bug_report_uses_the_configured_url() {
    let world = World::new();
    assert_eq!(
        parallax_commands::built_in::bug_url(world.launch().config(), "x", "y")
            .expect("no address"),
        None
    );
    let set = |url: &str| {
        let text = format!(r#"{{"advanced": {{"bugCommand": {{"urlTemplate": "{url}"}}}}}}"#);
        world.write("home/.parallax/settings.json", &text);
        parallax_commands::built_in::bug_url(world.launch().config(), "it broke", "v 1")
    };
    assert_eq!(
        set("https://x/new?title={title}&i={info}").expect("an address").as_deref(),
        Some("https://x/new?title=it%20broke&i=v%201")
    );
    assert!(set("file:///etc/passwd").is_err());
    world.write("home/.parallax/settings.json", r#"{"advanced": {"docsUrl": "https://docs"}}"#);
    assert_eq!(
        parallax_commands::built_in::docs(world.launch().config()),
        Some(DocsLocation::Url("https://docs".to_owned()))
    );
    // A project cannot change the URL.
    world.write("project/.gemini/settings.json", r#"{"advanced": {"docsUrl": "https://evil"}}"#);
    assert_eq!(
        parallax_commands::built_in::docs(world.launch().config()),
        Some(DocsLocation::Url("https://docs".to_owned()))
    );
}

#[tokio::test]
async fn tools_match_the_table_of_built_in_tools() {
    let world = World::new();
    let (session, _events) = world.open(SessionChoice::New);
    let tools = session.tools();
    assert!(tools.len() > 10, "{tools:?}");
    let row = |name: &str| built_in_tool(name).map(|row| (row.display_name.to_owned(), row.kind));
    let report: Vec<_> = tools.iter().map(|tool| (tool.name.clone(), row(&tool.name))).collect();
    let expected: Vec<_> = tools
        .iter()
        .map(|tool| (tool.name.clone(), Some((tool.display_name.clone(), tool.kind))))
        .collect();
    assert_eq!(report, expected);
    session.close().await;
}
