//! Tests of loading settings from real files.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "a test says what it expects")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_config::trust::{self, TrustLevel};
use parallax_config::trust_state::trust_state;
use parallax_config::{
    Acceptance, Config, ConfigError, Layer, LoadOptions, SettingScope, accept_settings,
    decline_settings, load, loosening_settings, set_setting, setting_rows,
};
use serde_json::{Value, json};

struct World {
    _root: tempfile::TempDir,
    root: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().canonicalize().expect("real");
        std::fs::create_dir_all(root.join("home")).expect("folder");
        std::fs::create_dir_all(root.join("project")).expect("folder");
        Self { _root: folder, root }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("write");
    }

    fn options(&self, variables: &[(&str, &str)]) -> LoadOptions {
        let mut all: Vec<(OsString, OsString)> =
            vec![("HOME".into(), self.root.join("home").into_os_string())];
        // Ignore the system settings of the machine that runs the tests.
        let none = self.root.join("none.json").into_os_string();
        all.push(("GEMINI_CLI_SYSTEM_SETTINGS_PATH".into(), none));
        all.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
        LoadOptions {
            cwd: self.root.join("project"),
            variables: all,
            skip_trust: false,
            ignore_env: false,
        }
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        load(self.options(variables))
    }

    fn trust(&self) {
        let project = self.root.join("project");
        let standing = trust_state(&self.options(&[]), &project).expect("standing");
        trust::set(&standing.files, &project, Some(TrustLevel::TrustFolder)).expect("set");
    }
}

#[test]
fn trust_is_decided_before_project_files_are_parsed() {
    let world = World::new();
    world.write("project/.gemini/settings.json", "{ not JSON");
    world.write("project/.env", "FROM_PROJECT=1\nGEMINI_CLI_TRUST_WORKSPACE=true\n");
    let config = world.load(&[]).expect("loaded");
    assert!(!config.trust.trusted);
    assert_eq!(config.environment.get("FROM_PROJECT"), None);
    world.trust();
    assert!(matches!(world.load(&[]), Err(ConfigError::Syntax { .. })));
    // Files that determine trust fail closed.
    for text in ["{", "[]", "{\"/\": true}"] {
        world.write("home/.gemini/trustedFolders.json", text);
        assert!(world.load(&[]).is_err(), "{text}");
    }
    let relative = [("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "trustedFolders.json")];
    assert!(matches!(world.load(&relative), Err(ConfigError::RelativePath { .. })));
}

#[test]
fn denying_trust_variable_overrides_rules_in_any_spelling() {
    let world = World::new();
    let trusted = |value: Option<&str>| {
        let variable = value.map(|value| ("GEMINI_CLI_TRUST_WORKSPACE", value));
        world.load(variable.as_slice()).expect("loaded").trust.trusted
    };
    assert!(trusted(Some("true")));
    for no in ["TRUE", "1", "yes", ""] {
        assert!(!trusted(Some(no)), "{no}");
    }
    world.trust();
    assert!(trusted(None));
    for no in ["false", "FALSE", "False", "0", "no", "NO"] {
        assert!(!trusted(Some(no)), "{no}");
    }
}

#[test]
fn parent_directory_settings_apply_only_when_trusted() {
    let world = World::new();
    world.trust();
    world.write(".env", "FROM_ABOVE=1\n");
    let config = world.load(&[]).expect("loaded");
    assert!(config.trust.trusted);
    assert_eq!(config.environment.get("FROM_ABOVE"), None);
    assert_eq!(config.trusted_folders, [world.root.join("project")]);

    let standing = trust_state(&world.options(&[]), &world.root).expect("standing");
    trust::set(&standing.files, &world.root, Some(TrustLevel::TrustFolder)).expect("set");
    let config = world.load(&[]).expect("loaded");
    assert_eq!(config.environment.get("FROM_ABOVE"), Some("1"));
    assert_eq!(config.trusted_folders, [world.root.join("project"), world.root.clone()]);

    // An untrusted directory in between cuts off the directories above it.
    let below = world.root.join("project/sub/deep");
    std::fs::create_dir_all(&below).expect("folder");
    let between = world.root.join("project/sub");
    trust::set(&standing.files, &between, Some(TrustLevel::DoNotTrust)).expect("set");
    trust::set(&standing.files, &below, Some(TrustLevel::TrustFolder)).expect("set");
    let config = load(LoadOptions { cwd: below.clone(), ..world.options(&[]) }).expect("loaded");
    assert_eq!(config.trusted_folders, [below]);
    assert_eq!(config.environment.get("FROM_ABOVE"), None);
}

#[test]
fn linked_directory_has_the_trust_of_its_target() {
    let world = World::new();
    world.trust();
    let link = world.root.join("link");
    std::os::unix::fs::symlink(world.root.join("project"), &link).expect("link");
    let at = |cwd: &Path| {
        let mut options = world.options(&[]);
        options.cwd = cwd.to_owned();
        load(options).expect("loaded").trust.trusted
    };
    assert!(at(&link));
    // Names that only begin like a trusted folder.
    for folder in ["projects", "Project", "evil"] {
        std::fs::create_dir_all(world.root.join(folder)).expect("folder");
        assert!(!at(&world.root.join(folder)), "{folder}");
    }
    assert!(!at(&world.root.join("project/../evil")));
    assert!(!at(&world.root.join("project/gone")));
}

#[test]
fn loosening_project_settings_apply_only_after_acceptance() {
    let world = World::new();
    world.trust();
    let settings = r#"{"allowedTools": ["run_shell_command"], "model": {"name": "m"}}"#;
    world.write("project/.gemini/settings.json", settings);
    let config = world.load(&[]).expect("loaded");
    assert_eq!(config.settings.allowed_tools(), Vec::<String>::new());
    assert_eq!(config.settings.model_name().as_deref(), Some("m"));
    assert_eq!(config.loosening_settings.len(), 1);
    assert!(config.warnings.iter().any(|text| text.contains("`tools.allowed`")));

    let accepted = accept_settings(&config.dirs, &config.outer, &config.cwd).expect("accept");
    assert_eq!(accepted[0].keys, config.loosening_settings[0].keys);
    assert_eq!(
        loosening_settings(&config.dirs, &config.outer, &config.cwd).expect("read"),
        accepted
    );
    let config = world.load(&[]).expect("loaded");
    assert_eq!(config.settings.allowed_tools(), ["run_shell_command"]);
    assert!(config.loosening_settings.is_empty());

    // A changed file needs a new decision.
    world.write("project/.gemini/settings.json", &settings.replace("\"m\"", "\"n\""));
    assert_eq!(world.load(&[]).expect("loaded").loosening_settings.len(), 1);
    world.write("project/.gemini/settings.json", settings);
    assert!(world.load(&[]).expect("loaded").loosening_settings.is_empty());
    world.write("home/.parallax/accepted-settings.json", "{ broken");
    let config = world.load(&[]).expect("loaded");
    assert_eq!(config.loosening_settings.len(), 1);
    assert!(config.warnings.iter().any(|text| text.contains("accepted-settings.json")));
}

#[test]
fn project_can_only_lower_a_budget() {
    let world = World::new();
    world.trust();
    world.write("home/.gemini/settings.json", r#"{"budget": {"session": {"maxTokens": 5000}}}"#);
    for (budget, loose) in [
        (r#"{"session": {"maxTokens": 3000}, "prompt": {"maxCost": 0.5}}"#, &[][..]),
        (r#"{"session": {"maxTokens": 5000}}"#, &[]),
        (r#"{"session": {"maxTokens": 5001, "timeout": 9}}"#, &["budget.session.maxTokens"]),
        (r#"{"session": {"maxTokens": 0}}"#, &["budget.session.maxTokens"]),
        (r#"{"session": {"maxTokens": "all"}}"#, &["budget.session.maxTokens"]),
        (r#"{"session": 3}"#, &["budget"]),
        ("7", &["budget"]),
    ] {
        world.write("project/.gemini/settings.json", &format!(r#"{{"budget": {budget}}}"#));
        let config = world.load(&[]).expect("loaded");
        let found =
            config.loosening_settings.first().map(|loose| loose.keys.clone()).unwrap_or_default();
        assert_eq!(found, loose, "{budget}");
    }
}

#[test]
fn project_dotenv_cannot_set_user_variables() {
    let world = World::new();
    world.trust();
    world.write("project/.env", "GEMINI_SANDBOX=false\nGEMINI_MODEL=m\n");
    let config = world.load(&[]).expect("loaded");
    assert_eq!(config.environment.get("GEMINI_MODEL"), Some("m"));
    assert_eq!(config.user_variable("GEMINI_SANDBOX"), None);
    let process = [("PARALLAX_SANDBOX", "podman"), ("GEMINI_SANDBOX", "docker")];
    let config = world.load(&process).expect("loaded");
    assert_eq!(config.user_variable("GEMINI_SANDBOX"), Some("podman"));
    std::fs::remove_file(world.root.join("project/.env")).expect("remove");
    world.write("home/.gemini/.env", "GEMINI_SANDBOX=docker\n");
    let config = world.load(&[]).expect("loaded");
    assert_eq!(config.user_variable("GEMINI_SANDBOX"), Some("docker"));
}

#[test]
fn project_dotenv_cannot_loosen_the_sandbox_or_redirect_a_key() {
    let world = World::new();
    world.trust();
    let url = "GOOGLE_GEMINI_BASE_URL=http://elsewhere\n";
    world.write("project/.env", &format!("PARALLAX_SANDBOX_TIER=seccomp\nA=1\n{url}"));
    let get = |process: &[(&str, &str)]| {
        let config = world.load(process).expect("loaded");
        let url = config.environment.get("GOOGLE_GEMINI_BASE_URL").map(str::to_owned);
        assert_eq!(config.environment.get("PARALLAX_SANDBOX_TIER"), None);
        (url, config.warnings.iter().filter(|text| text.contains("cannot set")).count())
    };
    assert_eq!(get(&[]), (None, 2));
    // A project that also sets its own key may redirect requests; the user's key is not sent there.
    world.write("project/.env", &format!("GEMINI_API_KEY=theirs\n{url}"));
    assert_eq!(get(&[]), (Some("http://elsewhere".to_owned()), 0));
    assert_eq!(get(&[("GEMINI_API_KEY", "mine")]), (None, 1));
    assert_eq!(get(&[("PARALLAX_API_KEY", "mine")]), (None, 1));
}

#[test]
fn project_dotenv_cannot_set_the_system_prompt_file() {
    let world = World::new();
    world.trust();
    for name in ["GEMINI_SYSTEM_MD", "GEMINI_WRITE_SYSTEM_MD", "PARALLAX_SYSTEM_MD"] {
        for (value, counts) in [("1", true), ("false", true), ("~/.bashrc", false), ("/x", false)] {
            world.write("project/.env", &format!("{name}={value}\n"));
            let config = world.load(&[]).expect("loaded");
            let refused = config.warnings.iter().any(|text| text.contains("cannot set"));
            assert_eq!(config.environment.get(name).is_some(), counts, "{name}={value}");
            assert_eq!(refused, !counts, "{name}={value}");
        }
        let config = world.load(&[(name, "/mine")]).expect("loaded");
        assert_eq!(config.environment.get(name), Some("/mine"));
    }
}

#[test]
fn project_dotenv_cannot_remove_system_prompt_sections() {
    let world = World::new();
    world.trust();
    for name in ["GEMINI_PROMPT_SAFETY", "PARALLAX_PROMPT_SAFETY"] {
        world.write("project/.env", &format!("{name}=0\n"));
        let config = world.load(&[]).expect("loaded");
        assert_eq!(config.environment.get(name), None);
        let output = format!("cannot set `{name}`");
        assert!(config.warnings.iter().any(|text| text.contains(&output)), "{:?}", config.warnings);
        let config = world.load(&[(name, "0")]).expect("loaded");
        assert_eq!(config.environment.get(name), Some("0"));
    }
}

#[test]
fn setting_change_preserves_the_rest_of_the_file() {
    let world = World::new();
    world.trust();
    let text =
        "// mine\n{\n  \"ui\": {\n    \"theme\": \"$THEME\" // why\n  },\n  \"own\": [1, 2]\n}\n";
    world.write("home/.parallax/settings.json", text);
    let config = world.load(&[]).expect("config");
    let set = |scope, key: &str, value: Option<Value>| {
        set_setting(&config, scope, key, value.as_ref()).map_err(|error| error.to_string())
    };
    set(SettingScope::User, "ui.hideTips", Some(json!("true"))).expect("set");
    set(SettingScope::User, "general.vimMode", Some(json!(true))).expect("set");
    let file = world.root.join("home/.parallax/settings.json");
    let read = || std::fs::read_to_string(&file).expect("the file");
    assert_eq!(
        read(),
        "// mine\n{\n  \"ui\": {\n    \"theme\": \"$THEME\", // why\n    \"hideTips\": true\n  },\n  \
         \"own\": [1, 2],\n  \"general\": {\n    \"vimMode\": true\n  }\n}\n"
    );
    set(SettingScope::User, "ui.hideTips", None).expect("reset");
    assert!(!read().contains("hideTips") && read().contains("// why"));
    let config = world.load(&[]).expect("config");
    let rows = setting_rows(&config.settings);
    let vim = rows.iter().find(|row| row.key == "general.vimMode").expect("the row");
    assert_eq!(
        (&vim.value, vim.origin.as_ref().map(|origin| origin.layer)),
        (&json!(true), Some(Layer::User))
    );
    assert!(
        set(SettingScope::User, "ui.hideTips", Some(json!(3))).expect_err("no").contains("true")
    );
    assert!(set(SettingScope::User, "ui.nothing", Some(json!(3))).is_err());
    assert!(!world.root.join("home/.gemini").exists());
}

#[test]
fn changed_list_keeps_its_comments_and_the_last_of_equal_keys_counts() {
    let world = World::new();
    let text = "{\n  \"ui\": {},\n  \"skills\": {\n    \"disabled\": [\n      \"bar\", // slow\n      \
                \"old\" // gone\n    ]\n  },\n  \"ui\": { \"theme\": \"x\" }\n}\n";
    world.write("home/.parallax/settings.json", text);
    let config = world.load(&[]).expect("config");
    let set = |key: &str, value: Value| {
        set_setting(&config, SettingScope::User, key, Some(&value)).expect("set");
    };
    set("skills.disabled", json!(["bar", "new"]));
    set("ui.hideTips", json!(true));
    let file = world.root.join("home/.parallax/settings.json");
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(text.contains("\"bar\", // slow") && !text.contains("\"old\""), "{text}");
    let config = world.load(&[]).expect("config");
    assert_eq!(config.settings.list("skills.disabled"), ["bar", "new"], "{text}");
    assert_eq!(config.settings.get("ui.hideTips"), Some(&json!(true)), "{text}");
    set("skills.disabled", json!(["new", "bar"]));
    let config = world.load(&[]).expect("config");
    assert_eq!(config.settings.list("skills.disabled"), ["new", "bar"]);
}

#[test]
fn saving_a_project_setting_rejects_loosening_and_keeps_accepted_ones() {
    let world = World::new();
    world.trust();
    world.write("project/.parallax/settings.json", r#"{"tools": {"allowed": ["glob"]}}"#);
    let config = world.load(&[]).expect("config");
    assert_eq!(config.loosening_settings.len(), 1);
    decline_settings(&config.dirs, &config.outer, &config.cwd).expect("declined");
    let config = world.load(&[]).expect("config");
    assert!(
        config
            .loosening_settings
            .first()
            .is_some_and(|loose| loose.acceptance == Acceptance::Declined)
    );
    accept_settings(&config.dirs, &config.outer, &config.cwd).expect("accepted");
    let set = |key: &str, value: Value| {
        let output = set_setting(&config, SettingScope::Workspace, key, Some(&value));
        output.map_err(|error| error.to_string())
    };
    for (key, value) in [
        ("general.defaultApprovalMode", json!("auto_edit")),
        ("security.folderTrust.enabled", json!(false)),
        ("tools.shell.pager", json!("sh -c x")),
        ("context.includeDirectories", json!(["/etc"])),
    ] {
        assert!(set(key, value).expect_err(key).contains("loosen"), "{key}");
    }
    set("ui.hideTips", json!(true)).expect("set");
    let config = world.load(&[]).expect("config");
    assert!(config.loosening_settings.is_empty() && config.settings.flag("ui.hideTips"));
    assert_eq!(config.settings.allowed_tools(), ["glob"]);
}
