//! Tests of the environment of child processes.

use parallax_protocol::secret::SecretRecipient;

use super::drop_reason::{ALLOWED, ENABLED};
use super::*;

fn parent(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    let found = environment.variables.iter().find(|(other, _)| other == name)?;
    found.1.to_str()
}

#[test]
fn each_variable_follows_the_first_matching_rule() {
    let redaction = Redaction {
        allowed: vec!["my_token".into(), "BOTH".into(), "FROM_DOTENV_ALLOWED".into()],
        blocked: vec!["harmless".into(), "both".into(), "path".into()],
        dotenv_names: vec!["FROM_DOTENV".into(), "FROM_DOTENV_ALLOWED".into()],
        ..Redaction::default()
    };
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nx";
    let github = format!("ghp_{}", "a1".repeat(18));
    // (Name, value, whether it is passed.)
    let table: &[(&str, &str, bool)] = &[
        ("LANG", "C.UTF-8", true),
        ("EDITOR", "vi", true),
        ("GEMINI_CLI_ACTIVITY_TOKEN", "x", true),
        ("GEMINI_API_KEY", "x", false),
        ("Google_Api_Key", "x", false),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/k.json", false),
        ("GEMINI_CLI_CUSTOM_HEADERS", "Authorization: x", false),
        ("PARALLAX_TELEMETRY", "x", true),
        ("SOME_TOKEN", "x", false),
        ("npm_config_authtoken", "x", false),
        ("MY_TOKEN", "x", true),
        ("HARMLESS", "x", false),
        ("BOTH", "x", true),
        ("PATH", "/bin", false),
        ("DATABASE_URL", "x", false),
        ("GOOGLE_CLOUD_PROJECT", "x", false),
        ("GIT_CONFIG_KEY_7", "x", true),
        ("GIT_CONFIG_VALUE_7", &github, false),
        ("GIT_AUTHOR_NAME", "Jo", true),
        ("GIT_COMMITTER_EMAIL", "a@b", true),
        ("XAUTHORITY", "/x", true),
        ("SSL_CERT_FILE", "/c", true),
        ("A", pem, false),
        ("B", "postgres://jo:pw@host/db", false),
        ("C", "https://host/path", true),
        ("C2", "redis://:pw@host:6379/0", false),
        ("C3", "https://0123456789abcdef0123@github.com/x", false),
        ("C4", "https://tok@github.com/x", false),
        ("C5", "https://:tok@h/", false),
        ("C6", "amqp://:pw@h", false),
        ("C7", "https://github.com/@jo/x", true),
        ("C8", "ssh://git@github.com/x", true),
        ("D", &github, false),
        ("E", "AIzaSyA1234567890abcdefghijklmnopqrstuvw", false),
        ("F", "AKIAIOSFODNN7EXAMPLE", false),
        ("G", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2ln", false),
        ("H", "sk_live_0123456789abcdefghijklmn", false),
        ("I", "xoxb-1234567890-abc", false),
        ("J1", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", false),
        ("J2", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", false),
        ("J3", "glpat-abcdefghij1234567890", false),
        ("J4", "npm_abcdefghijklmnopqrstuvwxyz0123456789", false),
        ("J5", "hf_abcdefghijklmnopqrstuvwxyzabcdefgh", false),
        ("J6", "dop_v1_abcdef0123456789abcdef0123456789abcdef0123456789", false),
        ("J7", "ya29.a0AfH6SMBabcdefghijklmnop", false),
        ("J8", "https://discord.com/api/webhooks/1/abc", false),
        ("J9", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abc==", false),
        ("K1", "123456789:AAEabcdefghijklmnopqrstuvwxyz0123456", false),
        ("K2", "sv=2020&sig=abc%3D", false),
        ("K3", "eyJhbGciOi.eyJzdWIi.abc", false),
        ("K4", "Bearer abcdefgh12345", false),
        ("KUBECONFIG", "/x", false),
        ("DOCKER_HOST", "tcp://1.2.3.4:2375", false),
        ("PGPASSFILE", "/x", false),
        ("NETRC", "x", false),
        ("ACCESS", "x", false),
        ("PIN", "1234", false),
        ("SALT", "plain", false),
        ("API", "Zm9vYmFyYmF6", false),
        ("SIGNING_SEED", "9f86d081884c7d659a2feaa0", false),
        ("WALLET_SEED", "legal winner thank year wave", false),
        ("RANDOM_SEED", "1234567890", true),
        ("DB_SEED", "./seeds/dev.sql", true),
        // Similar, but harmless.
        ("L1", "/opt/sk-learn-contrib/bin:/home/jo/.npm_global/lib:/usr/bin", true),
        ("L2", "/srv/glib-networking-with-a-long-name/lib:/opt/glade-projects", true),
        ("L3", "*.tar=01;31:*.sig=00;90:*.crt=00;90:", true),
        ("L4", "node_modules/.bin:/home/jo/npm_packages_of_all_projects_of_mine/x", true),
        ("L5", "https://discord.com/channels/1/2", true),
        ("L6", "/nix/store/0c1k2v3b4n5m6q7w8e9r0t1y2u3i4o5p-hf_tools-1.0/bin", true),
        ("L7", "10:20:30:40", true),
        ("L8", "gltf-10-with-a-longer-name-of-things", true),
        ("FROM_DOTENV", "plain", false),
        ("FROM_DOTENV_ALLOWED", "plain", true),
    ];
    let pairs: Vec<(&str, &str)> = table.iter().map(|(n, v, _)| (*n, *v)).collect();
    let built = build(parent(&pairs), &redaction, "cat", GitConfiguration::User);
    for (name, _, passes) in table {
        assert_eq!(value(&built, name).is_some(), *passes, "{name}");
        assert_eq!(built.dropped.iter().any(|other| other.name == *name), !passes, "{name}");
    }
}

#[test]
fn configured_credentials_are_withheld_even_if_the_filter_is_disabled() {
    let credentials = SecretVariables::default();
    for name in ["gw_header", "GW_ALLOWED", "HOME"] {
        credentials.insert(name, SecretRecipient::Provider);
    }
    for name in ["MCP_HEADER", "MCP_ALLOWED"] {
        credentials.insert(name, SecretRecipient::Service);
    }
    let redaction = Redaction {
        enabled: false,
        allowed: vec!["GW_ALLOWED".into(), "mcp_allowed".into()],
        credentials: credentials.clone(),
        ..Redaction::default()
    };
    // Registered after the options were copied, as a later extension does.
    credentials.insert("LATER", SecretRecipient::Service);
    let names = ["GW_HEADER", "GW_ALLOWED", "HOME", "MCP_HEADER", "MCP_ALLOWED", "LATER"];
    let parent = parent(&names.map(|name| (name, "x")));
    let built = build(parent.clone(), &redaction, "cat", GitConfiguration::User);
    let dropped: Vec<_> =
        built.dropped.iter().map(|it| (it.name.as_str(), it.override_setting)).collect();
    let expected = [
        ("GW_ALLOWED", None),
        ("GW_HEADER", None),
        ("LATER", Some(ALLOWED)),
        ("MCP_HEADER", Some(ALLOWED)),
    ];
    assert_eq!(dropped, expected);
    let values = secret_values(parent, &redaction);
    assert_eq!(values.len(), expected.len());
}

#[test]
fn disabled_filter_still_withholds_credentials_and_dotenv() {
    let redaction = Redaction {
        enabled: false,
        dotenv_names: vec!["FROM_DOTENV".into()],
        ..Redaction::default()
    };
    let parent = parent(&[
        ("A_TOKEN", "x"),
        ("GEMINI_API_KEY", "x"),
        ("PARALLAX_API_KEY", "x"),
        ("PARALLAX_GEMINI_API_KEY", "x"),
        ("PARALLAX_GOOGLE_API_KEY", "x"),
        ("PARALLAX_GOOGLE_APPLICATION_CREDENTIALS", "x"),
        ("FROM_DOTENV", "x"),
    ]);
    let built = build(parent, &redaction, "cat", GitConfiguration::User);
    let names: Vec<&str> = built.dropped.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "FROM_DOTENV",
            "GEMINI_API_KEY",
            "PARALLAX_API_KEY",
            "PARALLAX_GEMINI_API_KEY",
            "PARALLAX_GOOGLE_API_KEY",
            "PARALLAX_GOOGLE_APPLICATION_CREDENTIALS",
        ]
    );
    assert_eq!(value(&built, "A_TOKEN"), Some("x"));
}

#[test]
fn dropped_variable_notice_gives_reason_and_fix() {
    let redaction = Redaction {
        blocked: vec!["B".into()],
        dotenv_names: vec!["E".into()],
        ..Redaction::default()
    };
    let pairs = [
        ("A_KEY", "hidden-value"),
        ("B", "hidden-value"),
        ("DB_URI", "hidden-value"),
        ("E", "hidden-value"),
        ("F", "postgres://jo:hidden-value@host/db"),
        ("GEMINI_API_KEY", "hidden-value"),
    ];
    let built = build(parent(&pairs), &redaction, "cat", GitConfiguration::User);
    let reasons: Vec<(DropReason, Option<&str>)> =
        built.dropped.iter().map(|it| (it.reason, it.override_setting)).collect();
    assert_eq!(
        reasons,
        [
            (DropReason::NamePart("KEY"), Some(ALLOWED)),
            (DropReason::Blocked, Some(ALLOWED)),
            (DropReason::KnownName, Some(ALLOWED)),
            (DropReason::Dotenv, Some(ALLOWED)),
            (DropReason::SecretValue, Some(ENABLED)),
            (DropReason::OwnCredential, None),
        ]
    );
    // Paths of secret files are withheld.
    for dropped in built.dropped.iter().filter(|it| it.override_setting == Some(ALLOWED)) {
        let mut redaction = redaction.clone();
        redaction.allowed.push(dropped.name.clone());
        let built = build(parent(&pairs), &redaction, "cat", GitConfiguration::User);
        assert_eq!(value(&built, &dropped.name), Some("hidden-value"));
    }
    assert!(!format!("{:?}", built.dropped).contains("hidden-value"));
}

#[test]
fn ci_runner_passes_only_known_names_even_if_disabled() {
    let redaction = Redaction { enabled: false, ..Redaction::default() };
    for mark in [("GITHUB_SHA", "abc"), ("SURFACE", "Github")] {
        let parent = parent(&[mark, ("PATH", "/bin"), ("EDITOR", "vi"), ("TITLE", "t")]);
        let built = build(parent, &redaction, "cat", GitConfiguration::User);
        assert_eq!(value(&built, "EDITOR"), None);
        assert_eq!(value(&built, "PATH"), Some("/bin"));
        assert_eq!(value(&built, "TITLE"), Some("t"));
    }
}

#[test]
fn prompts_are_disabled_and_own_variables_replace_inherited_ones() {
    let parent = parent(&[("PAGER", "less"), ("TERM", "dumb"), ("DISPLAY", ":0")]);
    let built = build(parent, &Redaction::default(), "more", GitConfiguration::User);
    for (name, expected) in [
        ("GEMINI_CLI", "1"),
        ("PARALLAX", "1"),
        ("TERM", "xterm-256color"),
        ("PAGER", "more"),
        ("GIT_PAGER", "more"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("DISPLAY", ""),
    ] {
        let found = built.variables.iter().filter(|(other, _)| other == name).count();
        assert_eq!((found, value(&built, name)), (1, Some(expected)), "{name}");
    }
    // The user's identity, aliases, and hooks still apply.
    assert_eq!(value(&built, "GIT_CONFIG_GLOBAL"), None);
    assert!(built.dropped.is_empty());
}

#[test]
fn hook_gets_the_environment_of_a_user_program() {
    let pairs = [
        ("DISPLAY", ":0"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus"),
        ("PAGER", "less"),
        ("TERM", "dumb"),
        ("GIT_EDITOR", "vi"),
        ("GEMINI_API_KEY", "x"),
        ("A_TOKEN", "x"),
    ];
    let built = hook_environment(parent(&pairs), &Redaction::default(), GitConfiguration::User);
    for (name, expected) in pairs.iter().take(5) {
        assert_eq!(value(&built, name), Some(*expected), "{name}");
    }
    assert_eq!(value(&built, "PARALLAX"), Some("1"));
    assert_eq!(value(&built, "GIT_CONFIG_COUNT"), None);
    let dropped: Vec<&str> = built.dropped.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(dropped, ["A_TOKEN", "GEMINI_API_KEY"]);
    let built = hook_environment(parent(&pairs), &Redaction::default(), GitConfiguration::Isolated);
    assert_eq!(value(&built, "GIT_CONFIG_KEY_0"), Some("core.fsmonitor"));
}

#[test]
fn user_git_keeps_its_config_pairs_and_gets_no_fsmonitor() {
    let parent = parent(&[
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "user.name"),
        ("GIT_CONFIG_VALUE_0", "Jo"),
    ]);
    for parent in [parent, Vec::new()] {
        let number = usize::from(!parent.is_empty());
        let built = build(parent, &Redaction::default(), "cat", GitConfiguration::User);
        let pair = |what: &str| value(&built, &format!("GIT_CONFIG_{what}_{number}"));
        assert_eq!((pair("KEY"), pair("VALUE")), (Some("core.fsmonitor"), Some("false")));
        let count = (number + 1).to_string();
        assert_eq!(value(&built, "GIT_CONFIG_COUNT"), Some(count.as_str()));
    }
}

#[test]
fn isolated_git_appends_to_the_pairs_already_there() {
    let parent = parent(&[
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "user.name"),
        ("GIT_CONFIG_VALUE_0", "Jo"),
    ]);
    let built = build(parent, &Redaction::default(), "cat", GitConfiguration::Isolated);
    assert_eq!(value(&built, "GIT_CONFIG_GLOBAL"), Some("/dev/null"));
    assert_eq!(value(&built, "GIT_CONFIG_KEY_0"), Some("user.name"));
    assert_eq!(value(&built, "GIT_CONFIG_KEY_1"), Some("core.fsmonitor"));
    assert_eq!(value(&built, "GIT_CONFIG_KEY_2"), Some("credential.helper"));
    assert_eq!(value(&built, "GIT_CONFIG_COUNT"), Some("9"));
}
