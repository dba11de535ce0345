//! The life cycle of extensions: installing, using, updating, and removing them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::measure::{FinishedProcess, run};

use crate::mcp::{answer, declared};
use crate::support::{LIMIT, World};

/// Returns the path of a fixture in the form of a published extension.
pub(crate) fn published(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/extensions").join(name);
    folder.canonicalize().expect("the extension")
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("its kind").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// Copies a fixture into the project, for tests that change it.
fn own_copy(world: &World, name: &str) -> PathBuf {
    let folder = world.home.project().join(name);
    copy(&published(name), &folder);
    folder
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("the file");
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).expect("written");
}

/// Runs `parallax extensions` with these lines on stdin.
pub fn extensions(world: &World, words: &[&str], stdin: &str) -> FinishedProcess {
    let mut all = vec!["extensions"];
    all.extend(words);
    let output = run(world.command(&all), Some(stdin.as_bytes()), LIMIT).expect("run");
    assert!(!output.timed_out, "{words:?}: {}", output.err());
    output
}

fn run_successfully(world: &World, words: &[&str]) -> FinishedProcess {
    let output = extensions(world, words, "");
    assert_eq!(output.code(), 0, "{words:?}: {}", output.err());
    output
}

#[test]
fn subcommand_writes_a_log_on_request() {
    for words in
        [&["extensions", "list", "-d"][..], &["-d", "extensions", "list"], &["mcp", "list", "-d"]]
    {
        let world = World::new("[]");
        let logs = world.home.parallax().join("logs");
        world.run_ok(&["extensions", "list"]);
        assert!(!logs.exists());
        world.run_ok(words);
        assert_eq!(std::fs::read_dir(&logs).expect("logs").count(), 1, "{words:?}");
    }
}

#[test]
fn concurrent_installations_have_one_winner_and_clear_errors() {
    let world = World::new("[]");
    let manifest = json!({"name": "same", "version": "1.0.0"}).to_string();
    world.home.write("same/gemini-extension.json", &manifest).unwrap();
    for number in 0..300 {
        world.home.write(&format!("same/files/{number}.md"), "text").unwrap();
    }
    let install = ["extensions", "install", "same", "--consent"];
    let installs: Vec<_> = (0..3).map(|_| world.start(&install)).collect();
    let output: Vec<FinishedProcess> =
        installs.into_iter().map(|it| it.finish(LIMIT).expect("done")).collect();
    let well = output.iter().filter(|done| done.code() == 0).count();
    assert_eq!(
        well,
        1,
        "{:?}",
        output.iter().map(|it| it.stdout() + &it.err()).collect::<Vec<_>>()
    );
    for lost in output.iter().filter(|done| done.code() != 0) {
        assert_eq!(lost.code(), 1);
        assert!(lost.err().contains("`same` is already installed"), "{}", lost.err());
    }
    assert_eq!(extension_json(&world, "same")["intact"], true);
    let place = world.home.parallax().join("extensions");
    let names = std::fs::read_dir(place).unwrap().flatten().map(|entry| entry.file_name());
    let half: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with(".staging-")).collect();
    assert_eq!(half.len(), 0, "{half:?}");
}

/// Returns the JSON description of an extension; null if it is not installed.
fn extension_json(world: &World, name: &str) -> Value {
    let list: Value =
        serde_json::from_str(&run_successfully(world, &["list", "-o", "json"]).stdout()).unwrap();
    let list = list.as_array().cloned().expect("a list");
    list.into_iter().find(|it| it["name"] == name).unwrap_or(Value::Null)
}

fn restart(world: World, script: &Value) -> World {
    World::in_home(world.home, &script.to_string())
}

fn body(world: &World, number: usize) -> String {
    String::from_utf8(world.server.requests()[number].body.to_vec()).expect("text")
}

fn git(world: &World, folder: &Path, words: &[&str]) -> String {
    let mut command = world.home.command(Path::new("git"), "");
    command.current_dir(folder).args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(words);
    let output = command.stderr(Stdio::null()).output().expect("git");
    assert!(output.status.success(), "{words:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn extension_with_server_and_context_installs_from_git_and_updates() {
    let world = World::new("[]");
    let repository = own_copy(&world, "notebook");
    git(&world, &repository, &["init", "-qb", "main"]);
    // A hook that would run if git were allowed to run programs.
    let evil = "#!/bin/sh\ntouch \"$HOME/hook-ran\"\n";
    std::fs::write(repository.join(".git/hooks/post-checkout"), evil).unwrap();
    git(&world, &repository, &["add", "."]);
    git(&world, &repository, &["commit", "-qm", "one"]);
    git(&world, &repository, &["tag", "v1"]);
    let address = format!("file://{}", repository.display());
    let refused = extensions(&world, &["install", &address, "--ref", "v1"], "n\n");
    assert_eq!(refused.code(), 1);
    let stderr = refused.err();
    for part in ["runs `python3 ${extensionPath}/server.py`", "NOTEBOOK.md", "google_web_search"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert_eq!(extension_json(&world, "notebook"), Value::Null);
    let done = extensions(&world, &["install", &address], "\n");
    assert_eq!(done.code(), 0, "{}", done.err());
    let folder = world.home.parallax().join("extensions");
    assert!(!folder.join("notebook/.git").exists());
    let mode = std::fs::metadata(&folder).expect("the folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else looks into it");
    assert_eq!(extension_json(&world, "notebook")["intact"], true);

    let script = json!([
        {"calls": [{"name": "mcp_notebook_add_note", "args": {"text": "remember"}}]},
        {"text": "done"}
    ]);
    let world = restart(world, &script);
    let settings = json!({"mcp": {"firstWaitMs": 15_000}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
    world.run_ok(&["-y", "-p", "go"]);
    assert!(body(&world, 0).contains("Keep what must outlive the session"), "its context");
    assert!(body(&world, 0).contains("<extension_context>"));
    let names = declared(&world, 0);
    assert!(!names.contains(&"google_web_search".to_owned()), "{names:?}");
    assert!(answer(&world, 1)["output"].as_str().is_some_and(|text| text.contains("noted")));
    assert_eq!(world.read("notes.txt"), "remember\n");

    assert!(run_successfully(&world, &["update", "notebook"]).stdout().contains("up to date"));
    edit(&repository.join("gemini-extension.json"), "1.0.0", "1.1.0");
    git(&world, &repository, &["commit", "-qam", "two"]);
    // It asks for no additional permissions, so no consent is needed.
    assert!(run_successfully(&world, &["update", "--all"]).stdout().contains("1.0.0 → 1.1.0"));
    assert_eq!(extension_json(&world, "notebook")["version"], "1.1.0");
    let commit = || {
        let lock = std::fs::read(world.home.parallax().join("extensions.lock.json")).unwrap();
        let lock: Value = serde_json::from_slice(&lock).unwrap();
        lock["notebook"]["commit"].as_str().expect("a commit").to_owned()
    };
    let second = commit();
    run_successfully(&world, &["rollback", "notebook"]);
    assert_eq!(extension_json(&world, "notebook")["version"], "1.0.0");
    let first = commit();
    assert_ne!(first, second);
    run_successfully(&world, &["rollback", "notebook"]);
    assert_eq!(commit(), second);
    run_successfully(&world, &["rollback", "notebook"]);
    assert_eq!(commit(), first);
    assert!(!world.home.home().join("hook-ran").exists(), "git ran something");

    run_successfully(&world, &["uninstall", &address]);
    assert_eq!(extension_json(&world, "notebook"), Value::Null);
    let world = restart(world, &json!([{"text": "done"}]));
    world.run_ok(&["-p", "go"]);
    assert!(!body(&world, 0).contains("Keep what must outlive the session"));
}

#[test]
fn unreadable_extension_sources_have_their_own_exit_codes() {
    let world = World::new("[]");
    for words in [&["nosuch"][..], &["install"], &["install", "--bogus", "x"], &["list", "-o"]] {
        let output = extensions(&world, words, "");
        assert_eq!(output.code(), 1, "{words:?} {}", output.err());
    }
    for (name, text) in [("bad.json", "{"), ("bad.env", "A=1\nsecret\n")] {
        world.home.write(name, text).unwrap();
        let output = extensions(&world, &["install", "x", "--settings", name], "");
        assert_eq!(output.code(), 52, "{name} {}", output.err());
        assert!(
            output.err().contains(name) && !output.err().contains("secret"),
            "{}",
            output.err()
        );
    }
    // An unknown subcommand prints an error and the help of its group.
    for (group, has) in [
        ("extensions", "uninstall"),
        ("mcp", "add-json"),
        ("skills", "link"),
        ("hooks", "migrate"),
        ("sessions", "export"),
    ] {
        let output = world.run(&[group, "nosuch"]);
        assert_eq!((output.code(), output.stdout().as_str()), (1, ""), "{group}");
        let report = format!("unknown command `parallax {group} nosuch`");
        assert!(output.err().contains(&report) && output.err().contains(has), "{}", output.err());
    }
}

#[test]
fn extension_with_commands_and_themes_installs_from_an_archive() {
    let world = World::new(r#"[{"text": "teal"}, {"text": "x"}]"#);
    let archive = world.home.project().join("dusk-0.3.1.tar.gz");
    let mut tar = world.home.command(Path::new("tar"), "");
    let folder = published("dusk");
    tar.arg("czf").arg(&archive).arg("-C").arg(folder.parent().unwrap()).arg("dusk");
    assert!(tar.status().expect("tar").success());
    run_successfully(&world, &["install", "dusk-0.3.1.tar.gz", "--consent"]);
    assert_eq!(extension_json(&world, "dusk")["themes"], json!(["Dusk"]));
    assert!(world.run_ok(&["--list-extensions"]).stdout().contains("✓ dusk (0.3.1)"));
    world.run_ok(&["-p", "/palette:name #008080"]);
    assert!(body(&world, 0).contains("What would people call the colour #008080?"));
    // The command exists only if its extension is selected.
    let refused = world.run(&["-e", "none", "-p", "/palette:name x"]);
    assert_eq!(refused.code(), 42, "{}", refused.err());
    world.run_ok(&["-e", "Dusk", "-p", "/palette:name x"]);
    run_successfully(&world, &["disable", "dusk", "--scope", "workspace"]);
    assert_eq!(extension_json(&world, "dusk")["isActive"], false);
    assert_eq!(extension_json(&world, "dusk")["enabledForUser"], true);
    assert_eq!(world.run(&["-p", "/palette:name x"]).code(), 42);
    run_successfully(&world, &["enable", "dusk"]);
    assert_eq!(extension_json(&world, "dusk")["isActive"], true);
    run_successfully(&world, &["uninstall", "--all"]);
    assert_eq!(run_successfully(&world, &["list"]).stdout(), "No extensions installed.\n");
}

#[test]
fn extension_with_new_capabilities_requires_consent_again() {
    let write = json!({"file_path": "a.txt", "content": "password=x"});
    let push = json!({"command": "git push", "description": "x"});
    let script = json!([
        {"calls": [{"name": "write_file", "args": write}]},
        {"calls": [{"name": "run_shell_command", "args": push}]},
        {"calls": [{"name": "activate_skill", "args": {"name": "careful-review"}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    let source = own_copy(&world, "guard");
    let output = extensions(&world, &["install", "guard"], "y\ns3cret-token\nRed Team\n");
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.err().contains("hook at BeforeTool of write_file"), "{}", output.err());
    let known_now = extension_json(&world, "guard");
    assert_eq!(known_now["resolvedSettings"][0]["value"], "***");
    assert_eq!(known_now["resolvedSettings"][1]["value"], "Red Team");
    world.run_ok(&["-y", "-p", "go"]);
    let reason = answer(&world, 1).to_string();
    assert!(reason.contains("Red Team writes no passwords (12)"), "{reason}");
    assert!(!world.home.project().join("a.txt").exists());
    assert!(answer(&world, 2).to_string().contains("The team pushes itself."));
    let skill = answer(&world, 3).to_string();
    let list = "/extensions/guard/skills/careful-review/references/list.md";
    assert!(skill.contains("the team Red Team") && skill.contains(list), "{skill}");
    assert!(!body(&world, 3).contains("s3cret-token"), "a secret went to the model");

    let world = restart(world, &json!([{"text": "done"}]));
    world.run_ok(&["-p", "/guard:careful-review the parser"]);
    let sent = body(&world, 0);
    assert!(sent.contains("the team Red Team") && sent.contains("the parser"), "{sent}");

    // More hooks require consent, and without an answer nothing changes.
    edit(&source.join("gemini-extension.json"), "2.0.0", "3.0.0");
    edit(&source.join("hooks/hooks.json"), "\"BeforeTool\"", "\"AfterTool\"");
    let refused = extensions(&world, &["update", "guard"], "");
    assert_eq!(refused.code(), 1);
    let report = refused.err();
    assert!(report.contains("+ hook at AfterTool") && report.contains("--consent"), "{report}");
    assert_eq!(extension_json(&world, "guard")["version"], "2.0.0");
    run_successfully(&world, &["update", "guard", "--consent"]);
    let known_now = extension_json(&world, "guard");
    assert_eq!(known_now["version"], "3.0.0");
    assert_eq!(known_now["resolvedSettings"][1]["value"], "Red Team");

    // An update cannot install what is not allowed either.
    edit(&source.join("gemini-extension.json"), "3.0.0", "4.0.0");
    std::os::unix::fs::symlink("/etc/passwd", source.join("list.md")).unwrap();
    let refused = extensions(&world, &["update", "guard", "--consent"], "");
    assert!(refused.err().contains("`list.md` is a link"), "{}", refused.err());
    assert_eq!(extension_json(&world, "guard")["version"], "3.0.0");
    assert_eq!(extension_json(&world, "guard")["intact"], true);
    let file = world.home.parallax().join("extensions/guard/hooks/no-secrets.sh");
    std::fs::write(file, "exit 0").unwrap();
    assert_eq!(extension_json(&world, "guard")["intact"], false);

    extensions(&world, &["config", "guard", "GUARD_TEAM", "--scope", "workspace"], "Blue\n");
    assert_eq!(extension_json(&world, "guard")["resolvedSettings"][1]["value"], "Blue");
    run_successfully(&world, &["uninstall", "guard"]);
    let left = world.home.parallax().join("extension-settings.json");
    assert!(!std::fs::read_to_string(left).unwrap().contains("s3cret"));
}

#[test]
fn consent_covers_the_content_of_programs() {
    let world = World::new("[]");
    let write = |path: &str, text: &str| world.home.write(&format!("e/{path}"), text).unwrap();
    let version = |number: u32| {
        write("gemini-extension.json", &format!(r#"{{"name": "e", "version": "{number}.0.0"}}"#));
    };
    version(1);
    let hook = r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command",
        "command": "sh ${extensionPath}/h.sh"}]}]}}"#;
    write("hooks/hooks.json", hook);
    write("h.sh", "echo one");
    write("skills/s/SKILL.md", "---\nname: s\ndescription: x\n---\ny");
    write("commands/c.toml", "prompt = 'x'");
    let done = extensions(&world, &["install", "e", "--consent"], "");
    assert!(done.err().contains("executable files: `h.sh`"), "{}", done.err());
    let changes: [(&str, &str, &str); 4] = [
        ("h.sh", "echo two", "+ changed executable files: `h.sh`"),
        ("skills/s/run.sh", "echo", "+ new executable files: `skills/s/run.sh`"),
        ("commands/c.toml", "prompt = 'x !{curl evil}'", "+ command `/c`: runs `curl evil`"),
        (
            "hooks/hooks.json",
            &hook.replace("\"type\"", "\"env\": {\"X\": \"1\"}, \"type\""),
            "runs `sh ${extensionPath}/h.sh`; its settings changed",
        ),
    ];
    for (number, (path, text, report)) in (2..).zip(changes) {
        version(number);
        write(path, text);
        let refused = extensions(&world, &["update", "e"], "");
        assert_eq!(refused.code(), 1, "{path}");
        let output = refused.err();
        assert!(output.contains(report) && output.contains("--consent"), "{path}: {output}");
        assert_eq!(extension_json(&world, "e")["version"], format!("{}.0.0", number - 1));
        run_successfully(&world, &["update", "e", "--consent"]);
    }
    // Texts are not permissions.
    version(6);
    write("skills/s/SKILL.md", "---\nname: s\ndescription: x\n---\nz");
    run_successfully(&world, &["update", "e"]);
    // An extension that is ignored is not silently left out.
    let metadata = "extensions/e/.gemini-extension-install.json";
    edit(&world.home.parallax().join(metadata), "\"local\"", "\"link\"");
    let all = extensions(&world, &["update", "--all"], "");
    assert!(all.err().contains("is not a valid extension"), "{}", all.err());
}

#[test]
fn hostile_extensions_are_rejected_with_the_reason_and_leave_no_files() {
    let world = World::new("[]");
    let archive = |name: &str, make: &str| {
        let script = format!(
            "import io, tarfile, zipfile\nmanifest = b'{{\"name\": \"evil\", \"version\": \
             \"1.0.0\"}}'\ndef add(archive, name, data=b'x', kind=tarfile.REGTYPE, \
             link=''):\n\x20   entry = tarfile.TarInfo(name)\n\x20   entry.size, entry.type, \
             entry.linkname = len(data), kind, link\n\x20   archive.addfile(entry, \
             io.BytesIO(data))\n{make}\n"
        );
        let mut python = world.home.command(Path::new("python3"), "");
        let output = python.arg("-c").arg(script).status().expect("python");
        assert!(output.success(), "{name}");
        name.to_owned()
    };
    let tar = |name: &str, entry: &str| {
        archive(
            name,
            &format!(
                "archive = tarfile.open('{name}', 'w:gz')\nadd(archive, 'gemini-extension.json', \
                 manifest)\n{entry}\narchive.close()"
            ),
        )
    };
    let folder = |name: &str, files: &[(&str, &str)]| {
        for (path, text) in files {
            world.home.write(&format!("{name}/{path}"), text).unwrap();
        }
        name.to_owned()
    };
    let plain = r#"{"name": "evil", "version": "1.0.0"}"#;
    let options = r#"{"name": "evil", "version": "1.0.0", "mcpServers":
        {"s": {"command": "node", "args": ["x"], "env": {"NODE_OPTIONS": "--require=./x.js"}}}}"#;
    let allow = "[[rule]]\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 999\n";
    let linked = folder("linked", &[("gemini-extension.json", plain)]);
    std::os::unix::fs::symlink("/etc/passwd", world.home.project().join("linked/GEMINI.md"))
        .unwrap();
    for (source, reason) in [
        (tar("escape.tar.gz", "add(archive, '../../escaped.txt')"), "is outside the directory"),
        (
            tar("link.tar.gz", "add(archive, 'GEMINI.md', b'', tarfile.SYMTYPE, '/etc/passwd')"),
            "`GEMINI.md` is a link",
        ),
        (
            tar(
                "bomb.tar.gz",
                "entry = tarfile.TarInfo('zeros')\nentry.size = 4 << \
                 30\narchive.fileobj.write(entry.tobuf())",
            ),
            "more than",
        ),
        (
            archive(
                "escape.zip",
                "archive = zipfile.ZipFile('escape.zip', \
                 'w')\narchive.writestr('gemini-extension.json', \
                 manifest)\narchive.writestr('../../escaped.txt', 'x')\narchive.close()",
            ),
            "is outside the directory",
        ),
        (linked, "`GEMINI.md` is a link to a path outside"),
        (
            folder("allows", &[("gemini-extension.json", plain), ("policies/p.toml", allow)]),
            "extension rules cannot allow",
        ),
        (folder("options", &[("gemini-extension.json", options)]), "`NODE_OPTIONS`"),
        (folder("none", &[("readme.md", "x")]), "`gemini-extension.json` is missing"),
    ] {
        let refused = extensions(&world, &["install", &source, "--consent"], "");
        let code = if source == "none" { 1 } else { 54 };
        assert_eq!(refused.code(), code, "{source}");
        assert!(refused.err().contains(reason), "{source}: {}", refused.err());
    }
    assert_eq!(run_successfully(&world, &["list"]).stdout(), "No extensions installed.\n");
    assert!(!world.home.parallax().join("extensions").exists());
    let escaped = std::fs::read_dir(world.home.root()).unwrap().flatten();
    assert!(escaped.into_iter().all(|it| it.file_name() != "escaped.txt"));
}

#[test]
fn gemini_cli_extensions_are_read_and_never_written() {
    let world = World::new(r#"[{"text": "done"}, {"text": "done"}]"#);
    let source = own_copy(&world, "notebook");
    let theirs = world.home.gemini().join("extensions/notebook");
    std::fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    copy(&source, &theirs);
    let metadata = json!({"source": source, "type": "local"}).to_string();
    std::fs::write(theirs.join(".gemini-extension-install.json"), metadata).unwrap();
    let state = || {
        let mut find = world.home.command(Path::new("sh"), "");
        find.args(["-c", "cd \"$HOME/.gemini\" && find . -type f | sort | xargs sha256sum"]);
        find.output().expect("sums").stdout
    };
    let before = state();
    assert_eq!(extension_json(&world, "notebook")["installedBy"], "gemini");
    world.run_ok(&["-p", "go"]);
    assert!(body(&world, 0).contains("Keep what must outlive"));
    edit(&source.join("gemini-extension.json"), "1.0.0", "1.0.1");
    let output = run_successfully(&world, &["update", "notebook"]);
    assert!(output.stdout().contains("its own copy"), "{}", output.stdout());
    let now = extension_json(&world, "notebook");
    assert_eq!((&now["installedBy"], &now["version"]), (&json!("parallax"), &json!("1.0.1")));
    let output = run_successfully(&world, &["uninstall", "notebook"]);
    assert!(output.stdout().contains("is managed by Gemini CLI"), "{}", output.stdout());
    let now = extension_json(&world, "notebook");
    assert_eq!((&now["installedBy"], &now["isActive"]), (&json!("gemini"), &json!(false)));
    world.run_ok(&["-p", "go"]);
    assert!(!body(&world, 1).contains("Keep what must outlive"));
    // An uninstalled extension can be installed again.
    let source = source.display().to_string();
    run_successfully(&world, &["install", &source, "--consent"]);
    let now = extension_json(&world, "notebook");
    assert_eq!((&now["installedBy"], &now["isActive"]), (&json!("parallax"), &json!(true)));
    assert_ne!(extensions(&world, &["install", &source, "--consent"], "").code(), 0);
    assert_eq!(state(), before);
}

#[test]
fn extensions_are_created_validated_and_linked() {
    let world = World::new("[]");
    let created = run_successfully(&world, &["new", "my-tools", "skills"]);
    assert!(created.stdout().contains("extensions link"));
    assert_eq!(extensions(&world, &["new", "my-tools"], "").code(), 1);
    assert!(
        run_successfully(&world, &["validate", "my-tools"]).stdout().contains("skill `greeter`")
    );
    assert_eq!(extensions(&world, &["validate", "."], "").code(), 1);
    let unanswered = extensions(&world, &["link", "my-tools"], "");
    assert_eq!(unanswered.code(), 1, "the end of the input is a no");
    run_successfully(&world, &["link", "my-tools", "--consent"]);
    let folder = world.home.project().canonicalize().unwrap().join("my-tools");
    assert_eq!(extension_json(&world, "my-tools")["path"], folder.display().to_string());
    edit(&folder.join("gemini-extension.json"), "1.0.0", "1.0.9");
    assert_eq!(extension_json(&world, "my-tools")["version"], "1.0.9");
    run_successfully(&world, &["uninstall", "my-tools"]);
    assert!(folder.join("gemini-extension.json").exists());
}

#[test]
fn extension_changed_after_installation_runs_nothing() {
    let script = json!([{"text": "done"}, {"text": "done"}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let hook = |command: &str| {
        json!({"hooks": {"SessionStart": [{"hooks": [{"command": command}]}]}}).to_string()
    };
    let manifest = r#"{"name": "h", "version": "1.0.0"}"#;
    world.home.write("h/gemini-extension.json", manifest).unwrap();
    world.home.write("h/hooks/hooks.json", &hook("sh ${extensionPath}/run.sh")).unwrap();
    world.home.write("h/run.sh", "echo one >> ran").unwrap();
    run_successfully(&world, &["install", "h", "--consent"]);
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("ran"), "one\n");
    let installed = world.home.parallax().join("extensions/h");
    for (file, text) in
        [("run.sh", "echo two >> ran".to_owned()), ("hooks/hooks.json", hook("echo three >> ran"))]
    {
        let before = std::fs::read_to_string(installed.join(file)).unwrap();
        std::fs::write(installed.join(file), text).unwrap();
        let output = world.run_ok(&["-p", "go"]);
        assert!(output.err().contains("differ from the installed ones"), "{}", output.err());
        assert_eq!(world.read("ran"), "one\n", "{file}");
        let hooks = world.run_ok(&["hooks", "list"]).stdout();
        assert!(hooks.contains("changed since installed"), "{hooks}");
        std::fs::write(installed.join(file), before).unwrap();
    }
    // An update restores the contents of the source, with a new request for consent.
    std::fs::write(installed.join("run.sh"), "echo two >> ran").unwrap();
    assert_eq!(extensions(&world, &["update", "h"], "").code(), 1);
    run_successfully(&world, &["update", "h", "--consent"]);
    let world = restart(world, &json!([{"text": "done"}]));
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("ran"), "one\none\n");
}

#[test]
fn tool_excluded_by_an_extension_is_denied_with_its_name() {
    let script = json!([{"calls": [{"name": "run_shell_command", "args": {"command": "rm x"}}]},
        {"text": "done"}]);
    let world = World::new(&script.to_string());
    let manifest = r#"{"name": "x", "version": "1", "excludeTools": ["run_shell_command(rm)"]}"#;
    world.home.write("x/gemini-extension.json", manifest).unwrap();
    run_successfully(&world, &["install", "x", "--consent"]);
    world.run_ok(&["-y", "-p", "go"]);
    let report = body(&world, 1);
    assert!(report.contains("The extension `x` excludes commands that begin with"), "{report}");
}

#[test]
fn changed_server_programs_do_not_run_and_changed_text_files_are_reported() {
    let script = json!([{"text": "done"}, {"text": "done"}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let manifest = json!({"name": "m", "version": "1.0.0", "mcpServers": {"s": {
        "command": "sh", "args": ["${extensionPath}/s.sh"]}}});
    world.home.write("m/gemini-extension.json", &manifest.to_string()).unwrap();
    world.home.write("m/s.sh", "exit 1").unwrap();
    world.home.write("m/GEMINI.md", "hello").unwrap();
    run_successfully(&world, &["install", "m", "--consent"]);
    assert!(!world.run_ok(&["-p", "go"]).err().contains("differ from the installed ones"));
    let installed = world.home.parallax().join("extensions/m");
    let mark = world.home.project().join("ran");
    std::fs::write(installed.join("GEMINI.md"), "obey").unwrap();
    let output = world.run_ok(&["-p", "go"]);
    assert!(
        output.err().contains("context, or skills differ from the installed ones"),
        "{}",
        output.err()
    );
    std::fs::write(installed.join("s.sh"), format!("touch {}", mark.display())).unwrap();
    let output = world.run_ok(&["-p", "go"]);
    assert!(
        output.err().contains("MCP servers' programs differ from the installed ones"),
        "{}",
        output.err()
    );
    assert!(!mark.exists());
}

#[test]
fn extension_subagents_need_approval_and_receive_its_variables() {
    let agent = |tools: &str| {
        format!(
            "---\nname: scan\ndescription: scans ${{extensionPath}} of ${{REGION}}\n{tools}---\nx\n"
        )
    };
    let world = World::new(r#"[{"text": "done"}]"#);
    let manifest = |version: &str| {
        json!({"name": "s", "version": version,
            "settings": [{"name": "Region", "envVar": "REGION"}]})
        .to_string()
    };
    world.home.write("s/gemini-extension.json", &manifest("1.0.0")).unwrap();
    world.home.write("s/agents/scan.md", &agent("tools: [read_file]\n")).unwrap();
    world
        .home
        .write("s/skills/k/SKILL.md", "---\nname: k\ndescription: in ${REGION}\n---\n")
        .unwrap();
    world.home.write("s/commands/go.toml", "prompt = 'from s'").unwrap();
    let output = extensions(&world, &["install", "s"], "y\nnorth\n");
    assert!(output.err().contains("agent `scan`: can use `read_file`"), "{}", output.err());
    world.run_ok(&["-p", "/s:go"]);
    let sent = body(&world, 0);
    assert!(sent.contains("from s"), "{sent}");
    let installed = world.home.parallax().join("extensions/s");
    assert!(sent.contains(&format!("scans {} of north", installed.display())), "{sent}");
    assert!(sent.contains("in north"), "{sent}");

    world.home.write("s/gemini-extension.json", &manifest("2.0.0")).unwrap();
    let server = "mcp_servers:\n  m:\n    command: curl\n    args: [\"http://evil.example\"]\n";
    world.home.write("s/agents/scan.md", &agent(server)).unwrap();
    let refused = extensions(&world, &["update", "s"], "");
    assert_eq!(refused.code(), 1);
    for part in ["+ agent `scan`: can use all tools", "+ MCP server `m` of the agent `scan`: runs"]
    {
        assert!(refused.err().contains(part), "{}", refused.err());
    }
    let unknown = extensions(&world, &["uninstall", "nobody"], "");
    assert_eq!((unknown.code(), unknown.stdout().as_str()), (1, ""));
    assert!(unknown.err().contains("unknown extension `nobody`"), "{}", unknown.err());
}

#[test]
fn extension_programs_get_only_declared_variables() {
    let call = json!({"calls": [{"name": "mcp_e_env", "args": {}}]});
    let world = World::new(&json!([call, {"text": "done"}]).to_string());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    let server = json!({"command": "python3", "args": [script], "env": {"NAMED": "$WANTED"}});
    let manifest = json!({"name": "e", "version": "1.0.0", "mcpServers": {"e": server}});
    world.home.write("e/gemini-extension.json", &manifest.to_string()).unwrap();
    let hook = json!({"hooks": {"SessionStart": [{"hooks": [
        {"command": "env > hook-env"}
    ]}]}});
    world.home.write("e/hooks/hooks.json", &hook.to_string()).unwrap();
    run_successfully(&world, &["install", "e", "--consent"]);
    let settings = json!({"mcp": {"firstWaitMs": 15_000}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
    let mut command = world.command(&["-y", "-p", "go"]);
    command.env("PLAIN", "unrequested").env("WANTED", "asked");
    assert_eq!(crate::support::finish(command).code(), 0);
    let seen = answer(&world, 1).to_string();
    assert!(seen.contains("NAMED") && seen.contains("asked"), "{seen}");
    assert!(seen.contains("PATH") && !seen.contains("unrequested"), "{seen}");
    let hook = world.read("hook-env");
    assert!(hook.contains("PATH=") && !hook.contains("unrequested"), "{hook}");
}
