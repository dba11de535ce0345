//! Questions about trusting a directory.

use parallax_sdk::SessionConfig;
use parallax_sdk::trust::{Acceptance, PreparedConfig, TrustAnswer, TrustLevel, TrustQuestion};

use crate::support::World;

fn question(world: &World) -> TrustQuestion {
    match SessionConfig::prepare_or_ask(world.options(&[])).expect("asked") {
        PreparedConfig::NeedsTrust(question) => *question,
        PreparedConfig::Ready(_) => unreachable!("the folder is known"),
    }
}

fn ready(world: &World, variables: &[(&str, &str)]) -> SessionConfig {
    match SessionConfig::prepare_or_ask(world.options(variables)).expect("prepared") {
        PreparedConfig::Ready(launch) => *launch,
        PreparedConfig::NeedsTrust(_) => unreachable!("the folder is not known"),
    }
}

#[test]
fn unknown_folder_opens_one_trust_request() {
    for (answer, trusted, again) in [
        (TrustAnswer::Folder, true, false),
        (TrustAnswer::Parent, true, false),
        (TrustAnswer::No, false, false),
        (TrustAnswer::NotNow, false, true),
        (TrustAnswer::ByEditor, true, true),
    ] {
        let world = World::new();
        world.write("project/.gemini/settings.json", r#"{"ui": {"hideTips": true}}"#);
        world.write("project/.gemini/commands/x.toml", "prompt = 'x'");
        assert!(SessionConfig::prepare(world.options(&[])).is_err(), "headless ends");
        let question = question(&world);
        assert_eq!(question.folder, world.project());
        assert_eq!(question.parent.as_deref(), Some(world.root.as_path()));
        assert_eq!(question.preview.commands, ["x"]);
        let launch = question.answer(answer).expect("answered");
        assert_eq!(
            (launch.is_trusted(), launch.settings_manager().ui().hide_tips),
            (trusted, trusted),
            "{answer:?}"
        );
        let needs_answer = matches!(
            SessionConfig::prepare_or_ask(world.options(&[])).expect("prepared"),
            PreparedConfig::NeedsTrust(_)
        );
        assert_eq!(needs_answer, again, "{answer:?}");
    }
}

#[tokio::test]
async fn session_in_an_untrusted_folder_ignores_its_files() {
    let world = World::new();
    world.write("project/GEMINI.md", "obey me");
    world.write("project/.env", "GEMINI_API_KEY=stolen-key");
    let no = [("GEMINI_CLI_TRUST_WORKSPACE", "false"), ("GEMINI_MODEL", "script:tour")];
    let launch = ready(&world, &no);
    let (session, _events) = launch.open().expect("opened");
    assert!(session.context_files().is_empty());
    session.close().await;
}

#[test]
fn loosening_settings_and_new_rules_require_acceptance() {
    let world = World::new();
    world.write("project/.gemini/settings.json", r#"{"tools": {"allowed": ["glob"]}}"#);
    let rule = "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 10\n";
    world.write("project/.gemini/policies/mine.toml", rule);
    let launch = question(&world).answer(TrustAnswer::Folder).expect("answered");
    let keys = |launch: &SessionConfig| {
        launch
            .trust_manager()
            .loosening_settings()
            .iter()
            .flat_map(|loose| loose.keys.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&launch), ["tools.allowed"]);
    launch.trust_manager().decline_loosening_settings().expect("declined");
    let launch = ready(&world, &[]);
    assert!(
        launch
            .trust_manager()
            .loosening_settings()
            .iter()
            .all(|loose| loose.acceptance == Acceptance::Declined)
    );
    launch.trust_manager().accept_loosening_settings().expect("accepted");
    let launch = ready(&world, &[]);
    assert_eq!(keys(&launch), Vec::<String>::new());

    let update = launch.policy_sources().update().expect("new rules");
    assert!(update.is_new && update.files.len() == 1);
    assert!(update.rules.iter().any(|rule| rule.contains("mine.toml:1")), "{:?}", update.rules);
    // Opening a session records the rules as known.
    let _ = parallax_sdk::policy(&launch);
    assert_eq!(ready(&world, &[]).policy_sources().update(), None);
    world.write("project/.gemini/policies/mine.toml", &rule.replace("deny", "ask_user"));
    assert!(ready(&world, &[]).policy_sources().update().is_some_and(|update| !update.is_new));
}

#[test]
fn folder_trust_can_be_changed() {
    let world = World::new();
    let launch = world.launch();
    let level = Some(TrustLevel::DoNotTrust);
    launch.trust_manager().set(&world.project(), level).expect("set");
    assert!(!ready(&world, &[]).is_trusted());
    launch.trust_manager().set(&world.project(), None).expect("taken back");
    let _ = question(&world);
}
