use serde_json::json;

use super::*;
use crate::load::{LoadOptions, load};
use crate::mcp::{Endpoint, McpChoice};

struct ExtensionDirs {
    directory: tempfile::TempDir,
}

impl ExtensionDirs {
    fn new() -> Self {
        let world = Self { directory: tempfile::tempdir().expect("directory") };
        std::fs::create_dir(world.path("project")).expect("project");
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, text).expect("written");
    }

    fn manifest(&self, directory: &str, manifest: &Value) {
        self.write(&format!("{directory}/{MANIFEST}"), &manifest.to_string());
    }

    fn config(&self) -> Config {
        load(LoadOptions {
            cwd: self.path("project"),
            variables: vec![
                ("HOME".into(), self.directory.path().into()),
                ("FROM_OUTSIDE".into(), "outside".into()),
            ],
            skip_trust: true,
            ..LoadOptions::default()
        })
        .expect("a configuration")
    }

    fn load(&self, only: &[&str]) -> Extensions {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        self.config().extensions(&ExtensionChoice { only })
    }
}

fn names(found: &Extensions) -> Vec<(&str, bool)> {
    found.all.iter().map(|extension| (extension.name(), extension.active)).collect()
}

#[test]
fn both_homes_are_read_and_parallax_wins() {
    let world = ExtensionDirs::new();
    let version = |name: &str, version: &str| json!({"name": name, "version": version});
    world.manifest(".gemini/extensions/a", &version("a", "1"));
    world.manifest(".gemini/extensions/b", &version("b", "1"));
    world.manifest(".parallax/extensions/a", &version("a", "2"));
    world.manifest(".parallax/extensions/twice", &version("a", "3"));
    world.write(".gemini/extensions/broken/gemini-extension.json", "{");
    std::fs::create_dir_all(world.path(".gemini/extensions/empty")).expect("directory");
    let found = world.load(&[]);
    assert_eq!(names(&found), [("a", true), ("b", true)]);
    assert_eq!(found.all[0].manifest.version, "2");
    assert_eq!(found.warnings.len(), 3, "{:?}", found.warnings);
    assert_eq!(names(&world.load(&["B"])), [("a", false), ("b", true)]);
    assert_eq!(names(&world.load(&["none"])), [("a", false), ("b", false)]);
    // The warning about an unknown name is emitted when the session starts.
    assert_eq!(world.load(&["c"]).warnings.len(), 3);
}

#[test]
fn linked_extension_is_read_in_place() {
    let world = ExtensionDirs::new();
    let source = world.path("work/mine");
    world.manifest("work/mine", &json!({"name": "mine", "version": "1"}));
    let metadata = json!({"source": source, "type": "link"}).to_string();
    world.write(&format!(".parallax/extensions/mine/{INSTALL_METADATA}"), &metadata);
    let found = world.load(&[]);
    assert_eq!(found.all[0].folder, source);
    assert_eq!(found.command_folders()[0].folder, source.join("commands"));
}

#[test]
fn extension_servers_get_variables_and_settings_but_no_dangerous_ones() {
    let world = ExtensionDirs::new();
    world.manifest(
        ".gemini/extensions/a",
        &json!({"name": "a", "version": "1",
            "settings": [{"name": "Key", "envVar": "KEY", "sensitive": true},
                {"name": "Host", "envVar": "HOST"}, {"name": "Odd", "envVar": "NODE_OPTIONS"}],
            "mcpServers": {"s": {"command": "node", "trust": true,
                "args": ["${extensionPath}${/}s.js", "${workspacePath}", "$HOST", "$GONE"],
                "env": {"X": "${FROM_OUTSIDE}", "LD_PRELOAD": "x", "NODE_OPTIONS": "y"}}}}),
    );
    world.write(".gemini/extensions/a/.env", "KEY=old\nHOST=h\nNODE_OPTIONS=--require=x\n");
    let config = world.config();
    set_extension_value(
        &config.dirs,
        &config.keychain,
        "a",
        ExtensionScope::User,
        ("KEY", true),
        Some("new"),
    )
    .expect("set");
    let found = config.extensions(&ExtensionChoice::default());
    let servers = config.mcp_servers(&found.servers(), &McpChoice::default());
    let server = &servers.servers[0];
    assert!(!server.trust);
    let Endpoint::Stdio { args, env, .. } = &server.endpoint else { unreachable!() };
    let path = |path: &str| world.path(path).to_string_lossy().into_owned();
    assert_eq!(
        args,
        &[path(".gemini/extensions/a/s.js"), path("project"), "h".into(), "$GONE".into()]
    );
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(env, &[pair("X", "outside"), pair("KEY", "new"), pair("HOST", "h")]);
}

#[test]
fn context_file_names_expand_variables_within_the_directory() {
    let world = ExtensionDirs::new();
    world.manifest(
        ".gemini/extensions/a",
        &json!({"name": "a", "version": "1", "settings": [{"name": "Host", "envVar": "HOST"}],
            "contextFileName": ["${FROM_OUTSIDE}.md", "${extensionPath}${/}docs${/}$HOST.md",
                "${GONE:-default}.md", "${UP}/other.md"]}),
    );
    world.write(".gemini/extensions/a/.env", "HOST=h\nUP=..\n");
    for file in ["outside.md", "docs/h.md", "default.md"] {
        world.write(&format!(".gemini/extensions/a/{file}"), "text");
    }
    world.write(".gemini/extensions/other.md", "text");
    let found = world.load(&[]);
    let files = ["outside.md", "docs/h.md", "default.md"];
    let files = files.map(|file| world.path(&format!(".gemini/extensions/a/{file}")));
    assert_eq!(found.context_files(), files);
}

#[test]
fn modified_extension_starts_no_programs() {
    let world = ExtensionDirs::new();
    let servers = json!({"s": {"command": "node"}});
    world.manifest(
        ".parallax/extensions/a",
        &json!({"name": "a", "version": "1", "mcpServers": servers}),
    );
    let hook = json!({"hooks": {"SessionStart": [{"hooks": [
        {"command": "sh ${extensionPath}/h.sh"}
    ]}]}});
    world.write(".parallax/extensions/a/hooks/hooks.json", &hook.to_string());
    world.write(".parallax/extensions/a/h.sh", "true");
    world.write(".parallax/extensions/a/agents/x.md", "---\nname: x\n---\n");
    let directory = world.path(".parallax/extensions/a");
    let metadata = json!({"source": "/x", "type": "local"}).to_string();
    world.write(&format!(".parallax/extensions/a/{INSTALL_METADATA}"), &metadata);
    let entry = LockEntry {
        version: "1".into(),
        install: InstallMetadata::read(&directory).expect("metadata"),
        commit: None,
        hash: content_hash(&directory).expect("hash"),
        code_hash: fingerprint(&directory),
    };
    lock(&world.config().dirs, "a", Some(&entry)).expect("noted");
    let hooks = |found: &Extensions| {
        let hooks = crate::hooks::find_hooks(&world.config(), found).expect("hooks").hooks;
        hooks.iter().filter(|hook| hook.accepted).count()
    };
    let found = world.load(&[]);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    assert_eq!((found.servers().len(), found.agent_folders().len(), hooks(&found)), (1, 1, 1));
    for (file, other) in [
        ("hooks/hooks.json", hook.to_string().replace("h.sh", "other.sh")),
        ("h.sh", "curl evil".to_owned()),
        ("agents/x.md", "---\nname: y\n---\n".to_owned()),
        ("policies/p.toml", String::new()),
    ] {
        let path = format!(".parallax/extensions/a/{file}");
        let before = std::fs::read_to_string(world.path(&path)).ok();
        world.write(&path, &other);
        let found = world.load(&[]);
        let has_warning =
            found.warnings.iter().any(|text| text.contains("differ from the installed"));
        assert!(has_warning, "{file}: {:?}", found.warnings);
        assert_eq!((found.servers().len(), found.agent_folders().len()), (0, 0), "{file}");
        assert_eq!(hooks(&found), 0, "{file}");
        assert!(found.all[0].active, "{file}");
        match before {
            Some(before) => world.write(&path, &before),
            None => std::fs::remove_file(world.path(&path)).expect("removed"),
        }
    }
    assert!(!world.load(&[]).all[0].is_modified);
}

#[test]
fn theme_names_include_their_extension() {
    let world = ExtensionDirs::new();
    let themes = json!([{"name": "Dusk", "type": "custom"}, {"type": "custom"}]);
    world.manifest(".gemini/extensions/a", &json!({"name": "a", "version": "1", "themes": themes}));
    assert_eq!(world.load(&[]).themes().keys().collect::<Vec<_>>(), ["Dusk (a)"]);
    assert!(world.load(&["none"]).themes().is_empty());
}
