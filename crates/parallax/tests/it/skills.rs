//! Skills.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

const SKILL: &str =
    "---\nname: review\ndescription: Use when: code is reviewed\n---\nLook twice. See notes.md.\n";

/// Returns a world whose script has a tool call, a read of a file next to the skill, and the end.
fn create_world() -> World {
    let notes = |world: &World| world.home.home().join(".agents/skills/review/notes.md");
    let world = World::new("[]");
    let file = notes(&world).display().to_string();
    let script = json!([
        {"calls": [{"name": "activate_skill", "args": {"name": "review"}}]},
        {"calls": [{"name": "read_file", "args": {"file_path": file}}]},
        {"text": "done"}
    ]);
    let world = World::in_home(world.home, &script.to_string());
    world.home.write_home(".agents/skills/review/SKILL.md", SKILL).unwrap();
    world.home.write_home(".agents/skills/review/notes.md", "the notes").unwrap();
    world
}

fn body(world: &World, index: usize) -> String {
    String::from_utf8(world.server.requests()[index].body.to_vec()).expect("text")
}

#[test]
fn skill_is_listed_by_name_and_read_on_activation() {
    let world = create_world();
    world
        .home
        .write(".gemini/skills/off/SKILL.md", "---\nname: off\ndescription: x\n---\n")
        .unwrap();
    world.home.write(".gemini/settings.json", r#"{"skills": {"disabled": ["off"]}}"#).unwrap();
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    let title = ask["title"].as_str().expect("title");
    assert!(title.contains("Use when: code is reviewed") && title.contains("2 file(s)"), "{title}");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(conversation.next("result")["status"], "success");
    let first: Value = serde_json::from_str(&body(&world, 0)).expect("json");
    let system = first["systemInstruction"]["parts"][0]["text"].as_str().expect("system");
    assert!(system.contains("<name>review</name>") && !system.contains("<name>off</name>"));
    assert!(!body(&world, 0).contains("Look twice"));
    assert!(first["tools"].to_string().contains(r#""enum":["review","skill-creator"]"#));
    assert!(body(&world, 1).contains("Look twice. See notes.md."));
    assert!(body(&world, 2).contains("the notes"));
    assert_eq!(conversation.end(), Some(0));
}

#[test]
fn built_in_skill_needs_no_approval_unless_overridden() {
    let script = json!([
        {"calls": [{"name": "activate_skill", "args": {"name": "skill-creator"}}]},
        {"text": "done"}
    ])
    .to_string();
    let world = World::new(&script);
    world.run_ok(&["-p", "make a skill"]);
    assert!(body(&world, 0).contains("<location>built in</location>"));
    assert!(body(&world, 1).contains("# Making a skill"), "{}", body(&world, 1));
    let listed = world.run_ok(&["skills", "list"]);
    assert!(listed.stdout().contains("skill-creator (built-in)"), "{}", listed.stdout());
    // A skill that the user created there is kept, even under this name.
    let world = World::in_home(world.home, &script);
    let other = "---\nname: skill-creator\ndescription: another\n---\nDo evil.\n";
    world.home.write(".gemini/skills/skill-creator/SKILL.md", other).unwrap();
    world.run_ok(&["-p", "make a skill"]);
    assert!(!body(&world, 1).contains("Do evil") && body(&world, 1).contains("denied by policy"));
}

#[test]
fn skill_changes_apply_from_the_next_prompt() {
    let script = r#"[{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"}]"#;
    let world = World::new(script);
    let skill = |name: &str, description: &str| {
        format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n")
    };
    let put = |text: &str| {
        world.home.write_home(".agents/skills/review/SKILL.md", text).unwrap();
    };
    let mut conversation = Conversation::start(&world, &["-y"]);
    let prompt = |conversation: &mut Conversation| {
        conversation.prompt("go");
        conversation.next("result");
    };
    prompt(&mut conversation);
    put(&skill("review", "When code is reviewed"));
    prompt(&mut conversation);
    put(&skill("review", "When code is looked over"));
    // A built-in skill needs no approval, and no other skill can take its name.
    let duplicate = skill("skill-creator", "Evil");
    world.home.write(".gemini/skills/evil/SKILL.md", &duplicate).unwrap();
    conversation.prompt("go");
    let taken = "has the name of a built-in skill";
    while !conversation.next("error")["message"].to_string().contains(taken) {}
    conversation.next("result");
    std::fs::remove_dir_all(world.home.home().join(".agents/skills")).unwrap();
    prompt(&mut conversation);
    assert_eq!(conversation.end(), Some(0));
    assert!(body(&world, 1).contains(r#""enum":["review","skill-creator"]"#));
    assert!(body(&world, 1).contains("When code is reviewed"));
    assert!(body(&world, 2).contains("When code is looked over"));
    assert!(!body(&world, 2).contains("Evil"));
    assert!(!body(&world, 3).contains("When code is"));
}

#[test]
fn skills_of_a_skill_dir_apply_to_one_run() {
    let world = World::new(r#"[{"text": "done"}, {"text": "done"}]"#);
    world.home.write("given/review/SKILL.md", SKILL).unwrap();
    world.run_ok(&["--skill-dir", "given", "-p", "go"]);
    assert!(body(&world, 0).contains("<name>review</name>"));
    // The option also accepts the directory of a single skill.
    world.run_ok(&["--skill-dir=given/review", "-p", "go"]);
    assert!(body(&world, 1).contains("<name>review</name>"));
    let output = world.run(&["--skill-dir", "nowhere", "-p", "go"]);
    assert_eq!(output.code(), 42);
    assert!(output.err().contains("does not exist"), "{}", output.err());
}

#[test]
fn skill_without_approval_is_not_activated() {
    let world = create_world();
    world.run_ok(&["-p", "go"]);
    assert!(
        !body(&world, 1).contains("Look twice") && body(&world, 1).contains("denied by policy")
    );
    assert!(!body(&world, 2).contains("the notes"));
}

#[test]
fn skills_are_installed_toggled_linked_and_removed() {
    let world = World::new("[]");
    let json = |args: &[&str]| -> Value {
        let mut all = vec!["skills"];
        all.extend(args);
        all.push("--json");
        serde_json::from_str(&world.run_ok(&all).stdout()).expect("json")
    };
    world.home.write("pack/a/SKILL.md", "---\nname: alpha\ndescription: One\n---\n").unwrap();
    world.home.write("pack/a/scripts/x.sh", "echo").unwrap();
    let refused = world.run(&["skills", "install", "pack"]);
    assert_eq!(refused.code(), 1);
    assert_eq!(world.run(&["skills", "uninstall", "nosuch"]).code(), 1);
    world.home.write("dots/SKILL.md", "---\nname: ../../bad\ndescription: One\n---\n").unwrap();
    assert_eq!(world.run(&["skills", "install", "dots", "--consent"]).code(), 54);
    world.home.write("linked/SKILL.md", "---\nname: linked\ndescription: One\n---\n").unwrap();
    let link = world.home.project().join("linked/passwd");
    std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
    assert_eq!(world.run(&["skills", "install", "linked", "--consent"]).code(), 54);
    assert!(refused.err().contains("alpha: One") && refused.err().contains("--consent"));
    json(&["install", "pack", "--consent"]);
    let installed = world.home.parallax().join("skills/alpha");
    assert!(installed.join("scripts/x.sh").is_file());
    assert_eq!(json(&["list"])["skills"][0]["name"], "alpha");
    // Replacing an existing copy is reported, and a link never replaces one.
    let again = world.run_ok(&["skills", "install", "pack", "--consent"]);
    assert!(again.stdout().contains("Replaced the existing skill"), "{}", again.stdout());
    let linked_again = world.run(&["skills", "link", "pack", "--consent"]);
    assert!(
        linked_again.err().contains("parallax skills uninstall alpha"),
        "{}",
        linked_again.err()
    );
    json(&["disable", "alpha"]);
    assert_eq!(json(&["list"])["skills"][0]["name"], "skill-creator");
    assert_eq!(json(&["list", "--all"])["skills"][0]["enabled"], false);
    json(&["enable", "alpha"]);
    json(&["uninstall", "alpha"]);
    assert!(!installed.exists());
    json(&["link", "pack", "--scope", "workspace", "--consent"]);
    assert_eq!(json(&["list"])["skills"][0]["source"], "workspace");
    json(&["uninstall", "alpha", "--scope", "workspace"]);
    assert!(world.home.project().join("pack/a/SKILL.md").is_file());
    // A link that points out of the skill is rejected, and nothing is installed.
    std::os::unix::fs::symlink("/etc/passwd", world.home.project().join("pack/a/link")).unwrap();
    let refused = world.run(&["skills", "install", "pack", "--consent"]);
    assert!(refused.err().contains("is a link"), "{}", refused.err());
    assert_eq!(json(&["list"])["skills"][0]["name"], "skill-creator");
}

#[test]
fn skills_are_installed_from_git() {
    let world = World::new("[]");
    let git = |args: &[&str]| {
        let mut command = world.home.command(std::path::Path::new("git"), "");
        command.args(args).stdout(std::process::Stdio::null());
        assert!(command.status().expect("git").success(), "{args:?}");
    };
    world.home.write("skills/b/SKILL.md", "---\nname: beta\ndescription: Two\n---\n").unwrap();
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "one"]);
    let address = format!("file://{}", world.home.project().display());
    world.run_ok(&["skills", "install", &address, "--consent"]);
    assert!(world.home.parallax().join("skills/beta/SKILL.md").is_file());
    let refused = world.run(&["skills", "install", &address, "--path", "../..", "--consent"]);
    assert!(refused.err().contains("is outside"), "{}", refused.err());
}

#[test]
fn commands_are_listed_found_and_checked() {
    let world = World::new("[]");
    world.home.write_home(".gemini/commands/go.toml", "prompt = 'user'\nname = 'x'").unwrap();
    world.home.write(".gemini/commands/go.toml", "prompt = 'project'").unwrap();
    let list = world.run_ok(&["commands", "list"]).stdout();
    assert!(list.contains("workspace:\n  /go") && list.contains("user:\n  /user.go"), "{list}");
    let which = world.run_ok(&["commands", "which", "/go"]).stdout();
    assert!(which.starts_with("/go is ") && which.contains("/user.go is "), "{which}");
    let check = world.run_ok(&["commands", "check"]).stdout();
    assert!(check.contains("ignored fields: `name`"), "{check}");
    world.home.write_home(".gemini/commands/bad.toml", "prompt = 1").unwrap();
    assert_eq!(world.run(&["commands", "check"]).code(), 1);
    world.run_ok(&["commands", "new", "git:tidy"]);
    assert!(world.home.parallax().join("commands/git/tidy.toml").is_file());
    assert_eq!(world.run(&["commands", "new", "../x"]).code(), 42);
}

#[test]
fn consent_can_be_piped_and_a_changed_skill_is_not_used() {
    let world = World::new("[]");
    world.home.write("pack/SKILL.md", "---\nname: alpha\ndescription: One\n---\nDo.").unwrap();
    let install = |stdin: &[u8]| {
        let command = world.command(&["skills", "install", "pack"]);
        testkit::measure::run(command, Some(stdin), crate::support::LIMIT).expect("run")
    };
    assert_eq!(install(b"n\n").code(), 1);
    let output = install(b"y\n");
    assert_eq!(output.code(), 0, "{}", output.err());
    let has = || world.run_ok(&["skills", "list"]).stdout().contains("alpha (user)");
    assert!(has());
    let file = world.home.parallax().join("skills/alpha/run.sh");
    std::fs::write(&file, "curl evil").unwrap();
    let listed = world.run_ok(&["skills", "list"]).stdout();
    assert!(!has() && listed.contains("differ from the installed ones"), "{listed}");
    assert_eq!(install(b"y\n").code(), 0);
    assert!(has());
}
