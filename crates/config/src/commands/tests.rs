use std::path::Path;

use super::*;

fn write(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
    std::fs::write(path, text).expect("written");
}

fn dirs(root: &Path) -> UserDirs {
    UserDirs {
        user: root.to_owned(),
        gemini: root.join(".gemini"),
        parallax: root.join(".parallax"),
    }
}

fn find(root: &Path, trusted: bool) -> CommandFiles {
    find_commands(&command_folders(
        &dirs(&root.join("home")),
        &root.join("project"),
        trusted,
        false,
    ))
}

#[test]
fn commands_are_found_in_all_directories_in_precedence_order() {
    let directory = tempfile::tempdir().expect("directory");
    let root = directory.path();
    write(root, "home/.gemini/commands/git/commit.toml", "prompt = 'one'\nname = 'x'");
    write(root, "home/.parallax/commands/git/commit.toml", "prompt = 'two'");
    write(root, "project/.gemini/commands/fix.toml", "prompt = '''three'''\ndescription = 'a\tb'");
    write(
        root,
        "project/.parallax/commands/review.md",
        "---\ndescription: Look\nargument-hint: [file]\nmodel: x\nallowed-tools: Bash(git add:*, git rm:*), Read\nhue: red\ntools: [glob, Read]\nmode: plan\ntimeout: 90\n---\n\nReview $1\n",
    );
    let found = find(root, true);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let shown: Vec<(&str, &str, &str)> = found
        .commands
        .iter()
        .map(|command| {
            (command.name.as_str(), command.prompt.as_str(), command.description.as_str())
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("review", "Review $1", "Look"),
            ("fix", "three", "a b"),
            ("git:commit", "two", "Custom command from commit.toml"),
            ("git:commit", "one", "Custom command from commit.toml"),
        ]
    );
    assert_eq!(found.commands[0].argument_hint, "[file]");
    assert_eq!(found.commands[0].unknown_fields, ["hue"]);
    let overrides = &found.commands[0].overrides;
    assert_eq!(overrides.model.as_deref(), Some("x"));
    assert_eq!(overrides.allowed, ["Bash(git add:*, git rm:*)", "Read"]);
    assert_eq!(overrides.tools.as_deref(), Some(&["glob".to_owned(), "Read".to_owned()][..]));
    assert_eq!(overrides.mode, Some(ApprovalMode::Plan));
    assert_eq!(overrides.timeout, Some(Duration::from_secs(90)));
    assert_eq!(found.commands[0].template_position, (12, 1));
    assert_eq!(found.commands[3].unknown_fields, ["name"]);
    assert_eq!(found.commands[3].source, CommandSource::User);
    assert_eq!(find(root, false).commands.len(), 2);
}

#[test]
fn invalid_file_is_reported_and_others_are_loaded() {
    let folder = tempfile::tempdir().expect("directory");
    let root = folder.path();
    let directory = "home/.gemini/commands";
    for (name, text) in [
        ("a.toml", "prompt = 'fine'"),
        ("b.toml", "description = 'x'"),
        ("c.toml", "prompt = 'x'\nprompt 'y'"),
        ("d.toml", "\nprompt = 3"),
        ("e.md", "---\ndescription: x\n---\n"),
        ("f.md", "---\ntools: [\n---\ntext"),
        ("g.md", "---\ndescription: x\ntools:\n---\ntext"),
    ] {
        write(root, &format!("{directory}/{name}"), text);
    }
    let found = find(root, true);
    assert_eq!(found.commands.len(), 1);
    let problems: Vec<String> = found
        .problems
        .iter()
        .map(|problem| problem.to_string().replace(&*root.join(directory).to_string_lossy(), ""))
        .collect();
    let starts =
        ["/b.toml:1:1: ", "/c.toml:2:8: ", "/d.toml:2:10: ", "/e.md:1: ", "/f.md:", "/g.md:1: "];
    for (problems, starts) in problems.iter().zip(starts) {
        assert!(problems.starts_with(starts), "{problems}");
    }
    assert_eq!(problems.len(), starts.len(), "{problems:?}");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_cycles_end() {
    let directory = tempfile::tempdir().expect("directory");
    let root = directory.path();
    write(root, "elsewhere/shared.toml", "prompt = 'x'");
    write(root, "home/.gemini/commands/.dot.toml", "prompt = 'y'");
    let commands = root.join("home/.gemini/commands");
    std::os::unix::fs::symlink(root.join("elsewhere"), commands.join("team")).expect("link");
    std::os::unix::fs::symlink(&commands, commands.join("again")).expect("link");
    std::os::unix::fs::symlink("nowhere", commands.join("gone.toml")).expect("link");
    let found = find(root, true);
    let names: Vec<&str> = found.commands.iter().map(|command| command.name.as_str()).collect();
    assert_eq!(names, [".dot", "team:shared"]);
}

#[cfg(unix)]
#[test]
fn directories_and_links_in_place_of_commands_are_reported() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().expect("directory");
    let root = directory.path();
    write(root, "home/.gemini/commands/good.toml", "prompt = 'x'");
    let commands = root.join("home/.gemini/commands");
    std::fs::create_dir_all(commands.join("foo.toml")).expect("directory");
    std::fs::create_dir_all(root.join("elsewhere")).expect("directory");
    symlink(root.join("elsewhere"), commands.join("linked.md")).expect("link");
    symlink("nowhere", commands.join("folder")).expect("link");
    symlink("user@host.1", commands.join(".#good.toml")).expect("link");
    std::fs::create_dir_all(root.join("project/.gemini")).expect("directory");
    symlink("nowhere", root.join("project/.gemini/commands")).expect("link");
    let found = find(root, true);
    let mut problems: Vec<(Option<&str>, &str)> = found
        .problems
        .iter()
        .map(|problem| (problem.name.as_deref(), problem.message.as_str()))
        .collect();
    problems.sort_unstable();
    let (link, directory) =
        ("a symbolic link to a directory that does not exist", "a directory, not a command file");
    assert_eq!(
        problems,
        [(None, link), (None, link), (Some("foo"), directory), (Some("linked"), directory)]
    );
    assert_eq!(found.commands.len(), 1);
}

#[test]
fn scalars_are_descriptions_in_both_formats() {
    let folder = tempfile::tempdir().expect("directory");
    let root = folder.path();
    for (name, value) in [("a", "5"), ("b", "1.5"), ("c", "true"), ("d", "2026-01-01")] {
        let directory = "home/.gemini/commands";
        let toml = format!("description = {value}\nprompt = 'x'");
        write(root, &format!("{directory}/{name}.toml"), &toml);
        let markdown = format!("---\ndescription: {value}\n---\nx");
        write(root, &format!("{directory}/{name}{name}.md"), &markdown);
    }
    let found = find(root, true);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let mut descriptions: Vec<&str> =
        found.commands.iter().map(|it| it.description.as_str()).collect();
    descriptions.sort_unstable();
    assert_eq!(descriptions, ["1.5", "1.5", "2026-01-01", "2026-01-01", "5", "5", "true", "true"]);
}

#[test]
fn home_directory_has_no_project_commands() {
    let directory = tempfile::tempdir().expect("directory");
    let root = directory.path();
    let directories = command_folders(&dirs(root), root, true, false);
    assert!(directories.iter().all(|directory| directory.source == CommandSource::User));
}

#[test]
fn command_descriptions_are_one_short_line() {
    assert_eq!(one_line(" a\n\tb\u{1b}[31m ", 100), "a b[31m");
    assert_eq!(one_line(&"x".repeat(120), 100), format!("{}...", "x".repeat(97)));
    assert_eq!(one_line(&"x".repeat(100), 100).len(), 100);
}

#[test]
fn known_field_with_wrong_type_is_an_error() {
    for (field, expected) in [
        ("tools = 5", "`tools` must be a list of tool names"),
        ("tools = ['glob', 3]", "`tools` must be a list of tool names"),
        ("model = 5", "`model` must be a string"),
        ("agent = ['a']", "`agent` must be a string"),
        ("args = [1]", "`args` must be a list of arguments"),
        ("args = 5", "`args` must be a list of arguments"),
        ("mode = true", "`mode` must be a string"),
        ("mode = 'yolo'", "`mode` must be `plan`, `default`, `auto_edit`"),
    ] {
        let error = toml_format::read(&format!("prompt = 'x'\n{field}")).expect_err(field);
        assert_eq!((error.line, error.message.as_str()), (Some(2), expected), "{field}");
    }
    let written = toml_format::read("prompt = 'x'\ntools = 'read_file, glob'").expect("read");
    assert_eq!(written.overrides.tools, Some(vec!["read_file".to_owned(), "glob".to_owned()]));
}

#[test]
fn command_arguments_can_be_named() {
    let text =
        "prompt = 'x'\nargs = ['file', { name = 'level', required = true, enum = ['a', 'b'] }]";
    let written = toml_format::read(text).expect("read");
    assert_eq!(written.argument_hint, "[file] <level>");
    assert_eq!(written.arguments[1].choices, ["a", "b"]);
    assert_eq!(written.template_position, (1, 11));
    let written = toml_format::read("prompt = 'x'\nargs = '<file>'").expect("read");
    assert_eq!((written.argument_hint.as_str(), written.arguments), ("<file>", Vec::new()));
    let text = "model = 'flash'\ntools = ['glob']\nagent = 'x'\nprompt = \"\"\"\nü !{x\"\"\"";
    let written = toml_format::read(text).expect("read");
    assert_eq!((written.template_position, written.unknown_fields), ((5, 1), Vec::new()));
    assert_eq!(written.overrides.tools, Some(vec!["glob".to_owned()]));
    assert_eq!(written.overrides.model.as_deref(), Some("flash"));
    assert_eq!(written.overrides.agent.as_deref(), Some("x"));
}

#[test]
fn display_fields_may_contain_any_text() {
    for (fields, description, hint) in [
        ("description: 404\nargument-hint: 5", "404", "5"),
        (
            "description: true\nargument-hint: [pr-number] [priority]",
            "true",
            "[pr-number] [priority]",
        ),
        (
            "argument-hint: <file> | [a]\ndescription: Use when: asked # now",
            "Use when: asked # now",
            "<file> | [a]",
        ),
        ("argument-hint: [file]\nmode: agent", "", "[file]"),
        ("description: {a: b}\nargument-hint: \"[a]\" [b]", "{a: b}", "\"[a]\" [b]"),
        ("Description: a: b\ntitle: [x] y\ndescription: 'a' and 'b'", "'a' and 'b'", ""),
    ] {
        let text = format!("---\n{fields}\ntools: read_file\n---\nx");
        let written = markdown_format::read(&text).expect(fields);
        assert_eq!(
            (written.description.as_str(), written.argument_hint.as_str()),
            (description, hint)
        );
        assert_eq!(written.overrides.tools, Some(vec!["read_file".to_owned()]), "{fields}");
    }
    // Fields that decide what the command may do must be valid.
    for fields in ["description: a: b\ntools: [x] [y]", "mode: yolo"] {
        let text = format!("---\n{fields}\n---\nx");
        assert!(markdown_format::read(&text).is_err(), "{fields}");
    }
}

#[test]
fn dangling_link_is_reported_as_a_broken_command() {
    let folder = tempfile::tempdir().expect("directory");
    let (strong, weak) = (folder.path().join("strong"), folder.path().join("weak"));
    for directory in [&strong, &weak] {
        std::fs::create_dir(directory).expect("directory");
    }
    std::fs::write(weak.join("foo.md"), "weak").expect("written");
    for name in ["foo.toml", ".#bar.toml"] {
        std::os::unix::fs::symlink("gone", strong.join(name)).expect("link");
    }
    let command_folder =
        |directory| CommandFolder { source: CommandSource::User, folder: directory };
    let found = find_commands(&[command_folder(strong), command_folder(weak)]);
    let [problem] = found.problems.as_slice() else { panic!("{:?}", found.problems) };
    assert_eq!((problem.name.as_deref(), problem.overridden_by), (Some("foo"), 0));
    assert!(problem.message.contains("does not exist"), "{problem}");
}

#[test]
fn commands_of_other_agents_are_read_if_enabled() {
    let directory = tempfile::tempdir().expect("directory");
    let root = directory.path();
    let (dirs, project) = (dirs(&root.join("home")), root.join("project"));
    for (path, text) in [
        ("home/.claude/commands/fix.md", "their fix $1"),
        ("home/.gemini/commands/fix.md", "my fix"),
        ("project/.claude/commands/git/look.md", "---\nargument-hint: [x]\n---\nlook $ARGUMENTS"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, text).expect("written");
    }
    let found = |trusted, others| {
        let folders = command_folders(&dirs, &project, trusted, others);
        let commands = find_commands(&folders).commands.into_iter();
        commands.map(|it| format!("{} {}", it.name, it.prompt)).collect::<Vec<_>>()
    };
    assert_eq!(found(true, false), ["fix my fix"]);
    assert_eq!(found(false, true), ["fix my fix", "fix their fix $1"]);
    let all = ["git:look look $ARGUMENTS", "fix my fix", "fix their fix $1"];
    assert_eq!(found(true, true), all);
}
