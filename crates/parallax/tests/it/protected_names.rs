//! The table of protected names: the sandbox, the restore after a command, and the documentation
//! agree on every row.

use std::fmt::Write as _;
use std::process::Stdio;

use parallax_protocol::protected_names::{Protection, TABLE, patterns};

use crate::support::{World, answers, commands, finish};

/// Allows every command.
pub(crate) const RULE: &str = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 900\nallowRedirection = true\n";

fn git(world: &World, folder: &str, arguments: &[&str]) {
    let mut command = world.home.command(std::path::Path::new("git"), "");
    command.current_dir(world.home.project().join(folder));
    command.args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("git").success(), "{arguments:?}");
}

#[test]
fn protected_names_are_unchanged_after_a_command() {
    for tier in tiers() {
        let world = World::new(&commands(&["sh build"]));
        let mut script = String::from("exec 2>/dev/null\n");
        for (pattern, _) in patterns() {
            let name = pattern.replace('*', "x");
            // As a directory, as a file, and as a missing path.
            world.home.write(&format!("a/{name}/file"), "mine").expect("written");
            world.home.write(&format!("b/{name}"), "mine").expect("written");
            let _ = writeln!(
                script,
                "echo evil > a/{name}/file; echo evil > b/{name}; mkdir -p $(dirname c/{name}); \
                 echo evil > c/{name}; mkdir -p d/{name} && echo evil > d/{name}/file"
            );
        }
        world.home.write("build", &format!("{script}echo ran > inside\n")).expect("written");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        let answers = answers(&world.server);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {answers:?} {}", output.err());
        for (pattern, protection) in patterns() {
            let name = pattern.replace('*', "x");
            let expected = match protection {
                Protection::Closed => "mine",
                Protection::Instructions => "evil\n",
            };
            for path in [format!("a/{name}/file"), format!("b/{name}")] {
                assert_eq!(world.read(&path), expected, "{tier}: {path}");
            }
            for path in [format!("c/{name}"), format!("d/{name}/file")] {
                assert!(!world.home.project().join(&path).exists(), "{tier}: {path}");
            }
        }
    }
}

/// Creates a repository with protected files that differ between its branches.
fn repository(world: &World) {
    for name in [".vscode/tasks.json", ".github/workflows/ci.yml", ".gitattributes"] {
        world.home.write(name, "# one\n").expect("written");
    }
    world.home.write("a", "one\n").expect("written");
    git(world, "", &["init", "-q", "-b", "main"]);
    git(world, "", &["add", "."]);
    git(world, "", &["commit", "-qm", "one"]);
    git(world, "", &["checkout", "-qb", "other"]);
    for name in
        [".github/workflows/ci.yml", ".gitattributes", ".github/workflows/new.yml", "AGENTS.md"]
    {
        world.home.write(name, "# two\n").expect("written");
    }
    world.home.write("a", "two\n").expect("written");
    git(world, "", &["add", "."]);
    git(world, "", &["commit", "-qm", "two"]);
    git(world, "", &["checkout", "-q", "main"]);
}

#[test]
fn targets_of_protected_and_hidden_links_are_inaccessible() {
    use std::os::unix::fs::symlink;
    for tier in tiers() {
        let script = "exec 2>/dev/null\n\
            echo evil > real/tasks.json; mv real real2 && mkdir real && echo evil > real/tasks.json\n\
            echo evil > hook.sh; echo evil > bashrc; mkdir later && echo evil > later/tasks.json\n\
            cat .env keys/env; echo ran > inside\n";
        let world = World::new(&commands(&["sh build"]));
        for (name, text) in [
            ("real/tasks.json", "mine"),
            ("hook.sh", "mine"),
            ("bashrc", "mine"),
            ("keys/env", "SECRET"),
            ("build", script),
        ] {
            world.home.write(name, text).expect("written");
        }
        git(&world, ".", &["init", "-q"]);
        let root = world.home.project();
        let link = |target: &str, name: &str| symlink(target, root.join(name)).expect("a link");
        link("real", ".vscode");
        link("../../hook.sh", ".git/hooks/pre-commit");
        link("later", ".zed");
        link("keys/env", ".env");
        let home = world.home.parallax().parent().expect("a home").join(".bashrc");
        symlink(root.join("bashrc"), home).expect("a link");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {}", output.err());
        for name in [".vscode/tasks.json", "hook.sh", "bashrc"] {
            assert_eq!(world.read(name), "mine", "{tier}: {name}: {}", output.err());
        }
        assert!(!root.join("later/tasks.json").exists(), "{tier}: {}", output.err());
        // Landlock cannot hide files of the workspace.
        if tier != "landlock" {
            let answers = answers(&world.server);
            assert!(!format!("{answers:?}").contains("SECRET"), "{tier}: {answers:?}");
        }
    }
}

#[test]
fn rerun_does_not_open_targets_of_protected_links() {
    use std::os::unix::fs::symlink;
    for tier in ["namespaces", "landlock"] {
        let scripts = ["echo evil > hooks/pre", "echo evil > bashrc", "mv keys kept; true"];
        let lines: Vec<String> = (0..scripts.len()).map(|number| format!("sh s{number}")).collect();
        let lines: Vec<&str> = lines
            .iter()
            .map(String::as_str)
            .chain(["cat kept/env kept/npmrc", "mv lk lk2; true", "cat other/id"])
            .collect();
        let world = World::new(&commands(&lines));
        for (number, script) in scripts.iter().enumerate() {
            world.home.write(&format!("s{number}"), script).expect("written");
        }
        for name in ["hooks/pre", "bashrc"] {
            world.home.write(name, "mine").expect("written");
        }
        world.home.write("keys/env", "SECRET").expect("written");
        git(&world, ".", &["init", "-q"]);
        let root = world.home.project();
        symlink("../../hooks/pre", root.join(".git/hooks/pre-commit")).expect("a link");
        symlink("keys/env", root.join(".env")).expect("a link");
        // A hidden link in the home directory, and one that leads through another link.
        world.home.write("keys/npmrc", "SECRET").expect("written");
        symlink(root.join("keys/npmrc"), world.home.home().join(".npmrc")).expect("a link");
        world.home.write("other/id", "SECRET").expect("written");
        symlink("other", root.join("lk")).expect("a link");
        symlink("lk/id", root.join(".env.local")).expect("a link");
        let home = world.home.parallax().parent().expect("a home").join(".bashrc");
        symlink(root.join("bashrc"), home).expect("a link");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let mut command = world.command(&["-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        for name in ["hooks/pre", "bashrc"] {
            assert_eq!(world.read(name), "mine", "{tier}: {name}: {}", output.err());
        }
        // Landlock cannot hide files of the workspace.
        if tier != "landlock" {
            let answers = answers(&world.server);
            assert!(!format!("{answers:?}").contains("SECRET"), "{tier}: {answers:?}");
        }
    }
}

#[test]
fn targets_of_trusted_home_links_are_inaccessible() {
    use std::os::unix::fs::symlink;
    for tier in tiers() {
        let names = ["rules.toml", "p/settings.json", "npmrc", "context.md", "fish/x.fish"];
        let script = "exec 2>/dev/null\n\
            for name in rules.toml p/settings.json npmrc context.md fish/x.fish\n\
            do echo evil > $name; mv $name kept; echo evil > $name; done\n\
            mv p q && mkdir p && echo evil > p/settings.json\n\
            echo ran > inside\n";
        let world = World::new(&commands(&["sh build"]));
        for name in names {
            world.home.write(name, "mine").expect("written");
        }
        world.home.write("build", script).expect("written");
        let root = world.home.project();
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        for (link, target) in [
            (".parallax/policies/more.toml", "rules.toml"),
            (".gemini/trustedFolders.json", "p/settings.json"),
            (".npmrc", "npmrc"),
            (".gemini/GEMINI.md", "context.md"),
            (".config/fish/conf.d/x.fish", "fish/x.fish"),
        ] {
            let link = world.home.home().join(link);
            std::fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
            let _ = std::fs::remove_file(&link);
            symlink(root.join(target), link).expect("a link");
        }
        // The rules are those of a link, so only the project's name for them counts.
        std::fs::write(root.join("rules.toml"), "").expect("written");
        let mut command =
            world.command(&["-p", "go", "--approval-mode", "auto_edit", "--skip-trust"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {}", output.err());
        for name in names {
            let expected = if name == "rules.toml" { "" } else { "mine" };
            assert_eq!(world.read(name), expected, "{tier}: {name}: {}", output.err());
        }
    }
}

#[test]
fn edits_through_protected_links_and_of_their_targets_need_approval() {
    use std::os::unix::fs::symlink;
    let write = |path: &str| {
        format!(
            r#"{{"calls":[{{"name":"write_file","args":{{"file_path":"{path}","content":"evil"}}}}]}}"#
        )
    };
    let paths = ["sub/.husky/pre-commit", "rules.toml", "later.sh", "deep/a.sh", "plain.txt"];
    let script: Vec<String> = paths.iter().map(|path| write(path)).collect();
    let world = World::new(&format!("[{},{{\"text\":\"done\"}}]", script.join(",")));
    for name in ["hook.sh", "rules.toml", "deep/a.sh", "sub/a"] {
        world.home.write(name, "mine").expect("written");
    }
    let root = world.home.project();
    for folder in ["sub/.husky", ".claude/hooks"] {
        std::fs::create_dir_all(root.join(folder)).expect("a directory");
    }
    symlink("../../hook.sh", root.join("sub/.husky/pre-commit")).expect("a link");
    symlink("../../deep/a.sh", root.join(".claude/hooks/a.sh")).expect("a link");
    let home = world.home.home();
    std::fs::create_dir_all(home.join(".parallax/policies")).expect("a directory");
    symlink(root.join("rules.toml"), home.join(".parallax/policies/z.toml")).expect("a link");
    symlink(root.join("later.sh"), home.join(".zshrc")).expect("a link");
    // A link to a directory above the workspace protects nothing.
    symlink("../../..", root.join(".claude/above")).expect("a link");
    std::fs::write(root.join("rules.toml"), "").expect("written");
    world.run_ok(&["-p", "go", "--approval-mode", "auto_edit"]);
    assert_eq!(world.read("hook.sh"), "mine");
    assert_eq!(world.read("rules.toml"), "");
    assert!(!root.join("later.sh").exists());
    assert_eq!(world.read("plain.txt"), "evil", "{:?}", answers(&world.server));
}

/// Returns the tiers that this machine can run.
#[expect(clippy::print_stdout, reason = "says what was not tested")]
pub(crate) fn tiers() -> impl Iterator<Item = &'static str> {
    ["namespaces", "bubblewrap", "landlock"].into_iter().filter(|tier| {
        let is_there = *tier != "bubblewrap" || std::path::Path::new("/usr/bin/bwrap").exists();
        if !is_there {
            println!("no bwrap here: not tested");
        }
        is_there
    })
}

/// Links that programs trust, each relative to the home directory, with their targets in the
/// workspace. Directories on the way are created.
const TRUSTED_LINKS: [(&str, &str); 12] = [
    ("work/sub/.husky/pre-commit", "t/husky"),
    ("work/sub/nested/.git/hooks/d/pre-commit", "t/hook"),
    ("work/sub/.gemini/settings.json", "t/settings"),
    ("work/sub/.vscode", "t/vscode"),
    ("work/.VSCode", "t/case"),
    ("work/.git/info", "t/info"),
    ("work/.git/config.worktree", "t/worktree"),
    ("work/.claude/a/b/x.sh", "t/claude"),
    ("work/sub/.envrc", "t/between"),
    (".ssh/deep/config", "t/ssh"),
    (".config/fish/functions/x.fish", "t/fish"),
    (".gemini/extensions/e/gemini-extension.json", "t/extension"),
];

/// Creates the links; returns the files that their names lead to, relative to the workspace.
fn trusted_links(world: &World) -> Vec<String> {
    use std::os::unix::fs::symlink;
    let root = world.home.project();
    git(world, ".", &["init", "-q"]);
    std::fs::create_dir_all(root.join("sub/nested")).expect("a directory");
    git(world, "sub/nested", &["init", "-q"]);
    let _ = std::fs::remove_dir_all(root.join(".git/info"));
    std::fs::create_dir_all(root.join("t")).expect("a directory");
    symlink("end", root.join("t/between")).expect("a link");
    let mut files = Vec::new();
    for (link, target) in TRUSTED_LINKS {
        let link = match link.strip_prefix("work/") {
            Some(below) => root.join(below),
            None => world.home.home().join(link),
        };
        std::fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        symlink(root.join(target), &link).expect("a link");
        let file = match target {
            "t/vscode" | "t/case" | "t/info" => format!("{target}/file"),
            "t/between" => "t/end".to_owned(),
            target => target.to_owned(),
        };
        world.home.write(&file, "mine").expect("written");
        files.push(file);
    }
    files
}

#[test]
fn rerun_does_not_grant_targets_of_trusted_links() {
    for tier in tiers() {
        let lines: Vec<String> =
            (0..TRUSTED_LINKS.len()).map(|number| format!("sh s{number}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let world = World::new(&commands(&lines));
        let files = trusted_links(&world);
        for (number, file) in files.iter().enumerate() {
            world.home.write(&format!("s{number}"), &format!("echo evil > {file}")).expect("it");
        }
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        for file in files {
            assert_eq!(world.read(&file), "mine", "{tier}: {file}: {}", output.err());
        }
        assert_eq!(answers(&world.server).len(), TRUSTED_LINKS.len(), "{tier}: {}", output.err());
    }
}

#[test]
fn targets_of_trusted_links_at_any_depth_need_approval_for_edits() {
    let world = World::new("[{\"text\":\"none\"}]");
    let files = trusted_links(&world);
    let calls: Vec<String> = files
        .iter()
        .map(String::as_str)
        .chain(["t/other"])
        .map(|path| {
            format!(
                r#"{{"calls":[{{"name":"write_file","args":{{"file_path":"{path}","content":"evil"}}}}]}}"#
            )
        })
        .collect();
    let script = format!("[{},{{\"text\":\"done\"}}]", calls.join(","));
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-p", "go", "--approval-mode", "auto_edit"]);
    for file in files {
        assert_eq!(world.read(&file), "mine", "{file}");
    }
    assert_eq!(world.read("t/other"), "evil");
}

#[test]
fn git_directory_elsewhere_in_the_workspace_is_protected() {
    for tier in tiers() {
        let world = World::new(&commands(&["sh build", "git add a && git commit -qm two"]));
        git(&world, ".", &["init", "-q", "--separate-git-dir=store"]);
        git(&world, ".", &["config", "user.name", "A"]);
        git(&world, ".", &["config", "user.email", "a@b"]);
        let script =
            "echo evil > store/hooks/post-commit; echo evil >> store/config; echo ran > inside\n";
        world.home.write("build", script).expect("written");
        world.home.write("a", "a").expect("written");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let before = world.read("store/config");
        let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {}", output.err());
        let hook = world.home.project().join("store/hooks/post-commit");
        assert!(!hook.exists(), "{tier}: {}", output.err());
        assert_eq!(world.read("store/config"), before, "{tier}: {}", output.err());
        // Git itself still works.
        let answers = answers(&world.server);
        assert!(!answers[1].contains("Exit Code"), "{tier}: {}", answers[1]);
    }
}

#[test]
fn checkout_in_a_package_directory_changes_all_files_or_none() {
    let script = "printf 'git checkout other' > new; sh new; git add -A";
    let lines = ["git checkout other", script, "sh new", "git add -A && git commit -qm next"];
    let world = World::new(&commands(&lines));
    git(&world, ".", &["init", "-q", "-b", "main"]);
    git(&world, ".", &["config", "user.name", "A"]);
    git(&world, ".", &["config", "user.email", "a@b"]);
    world.home.write("web/page", "one").expect("written");
    git(&world, ".", &["add", "-A"]);
    git(&world, ".", &["commit", "-qm", "one"]);
    git(&world, ".", &["checkout", "-qb", "other"]);
    world.home.write("web/page", "two").expect("written");
    world.home.write("root.txt", "two").expect("written");
    git(&world, ".", &["add", "-A"]);
    git(&world, ".", &["commit", "-qm", "two"]);
    git(&world, ".", &["checkout", "-q", "main"]);
    let mut command = world.command(&["-p", "go", "-y"]);
    command.current_dir(world.home.project().join("web"));
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    let answers = answers(&world.server);
    assert!(answers[0].contains("permissions beyond the sandbox"), "{}", answers[0]);
    for answer in &answers[1..3] {
        assert!(answer.contains("index.lock': Read-only file system"), "{answer}");
        assert!(answer.contains("in a line with nothing but git"), "{answer}");
    }
    assert_eq!(world.read("web/page"), "one");
    let listed = crate::worktrees::git(&world, &["show", "--name-only", "--format=%s", "HEAD"]);
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["next", "web/new"]);
}

#[test]
fn programs_of_a_repository_around_the_workspace_stay_in_yolo_mode() {
    let directory = "D=$(git rev-parse --git-common-dir)";
    let hook = format!("{directory}; echo evil > $D/hooks/post-commit");
    let attributes =
        format!("{directory}; mkdir -p $D/info; echo '* filter=x' > $D/info/attributes");
    let lines = [
        "git config core.hooksPath evil",
        "git config alias.st '!evil'",
        &hook,
        &attributes,
        "git config user.name B",
        "git checkout -qb f && git branch -u main && git stash list",
        "git add -A && git commit -qm two",
    ];
    let world = World::new(&commands(&lines));
    git(&world, ".", &["init", "-q", "-b", "main"]);
    git(&world, ".", &["config", "user.name", "A"]);
    git(&world, ".", &["config", "user.email", "a@b"]);
    world.home.write("web/page", "one").expect("written");
    git(&world, ".", &["add", "-A"]);
    git(&world, ".", &["commit", "-qm", "one"]);
    world.home.write("web/page", "two").expect("written");
    let mut command = world.command(&["-p", "go", "-y"]);
    command.current_dir(world.home.project().join("web"));
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    let config = world.read(".git/config");
    assert!(!config.contains("evil"), "{config}");
    assert!(config.contains("name = B") && config.contains("merge = refs/heads/main"), "{config}");
    for file in ["hooks/post-commit", "info/attributes"] {
        assert!(!world.home.project().join(".git").join(file).exists(), "{file}");
    }
    let subjects = crate::worktrees::git(&world, &["log", "--format=%s", "f"]);
    assert_eq!(subjects.split_whitespace().collect::<Vec<_>>(), ["two", "one"]);
}

#[test]
fn working_trees_next_to_their_bare_repository_are_usable_and_protected() {
    for tier in tiers() {
        let lines = ["sh build", "git -C main commit -qm two --allow-empty", "git worktree list"];
        let world = World::new(&commands(&lines));
        git(&world, ".", &["init", "-q", "--bare", ".bare"]);
        git(&world, ".bare", &["config", "user.name", "A"]);
        git(&world, ".bare", &["config", "user.email", "a@b"]);
        world.home.write(".git", "gitdir: ./.bare\n").expect("written");
        git(&world, ".", &["worktree", "add", "-q", "--orphan", "-b", "main", "main"]);
        let script = "for path in .bare/hooks/post-commit .bare/config .bare/info/attributes \
            .bare/worktrees/main/config.worktree; do echo evil >> $path; done; echo ran > inside\n";
        world.home.write("build", script).expect("written");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let before = world.read(".bare/config");
        let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {}", output.err());
        assert_eq!(world.read(".bare/config"), before, "{tier}: {}", output.err());
        for path in ["hooks/post-commit", "info/attributes", "worktrees/main/config.worktree"] {
            let path = world.home.project().join(".bare").join(path);
            assert!(!path.exists(), "{tier}: {path:?}: {}", output.err());
        }
        for answer in answers(&world.server).iter().skip(1) {
            assert!(!answer.contains("Exit Code"), "{tier}: {answer}");
        }
    }
}

#[test]
fn parallax_directory_may_be_a_link() {
    for tier in tiers() {
        let world = World::new(&commands(&["echo ran > inside"]));
        let ours = world.home.home().join(".parallax");
        let elsewhere = world.home.home().join("dot/parallax");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        std::fs::create_dir_all(elsewhere.parent().expect("a parent")).expect("a directory");
        std::fs::rename(&ours, &elsewhere).expect("moved");
        std::os::unix::fs::symlink("dot/parallax", &ours).expect("a link");
        let mut command = world.command(&["-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {}", output.err());
    }
}

#[test]
fn protected_files_of_new_working_trees_are_kept() {
    for tier in ["namespaces", "landlock"] {
        let world =
            World::new(&commands(&["git clone -q . copy", "git worktree add -q tree other"]));
        repository(&world);
        let mut command = world.command(&["-p", "go"]);
        command.args(["--allowed-tools", "run_shell_command(git)"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        for path in ["copy/.vscode/tasks.json", "copy/.gitattributes", "tree/AGENTS.md"] {
            let path = world.home.project().join(path);
            assert!(
                path.exists(),
                "{tier} {path:?}: {:?} {}",
                answers(&world.server),
                output.err()
            );
        }
        assert_eq!(world.read("tree/.github/workflows/ci.yml"), "# two\n", "{tier}");
    }
}

#[test]
fn git_command_that_would_change_protected_files_needs_permission_first() {
    for tier in ["namespaces", "landlock"] {
        for permitted in [false, true] {
            let world = World::new(&commands(&["git checkout -q other", "git status --short"]));
            repository(&world);
            let root = world.home.project().canonicalize().expect("a path");
            let paths = [".gitattributes", ".github/workflows", "AGENTS.md"];
            let paths = paths.map(|path| format!("{:?}", root.join(path))).join(", ");
            let permissions = match permitted {
                true => format!("permissions = {{ fileSystem = {{ write = [{paths}] }} }}\n"),
                false => String::new(),
            };
            let rule = format!("{RULE}commandPrefix = \"git\"\n{permissions}");
            world.home.write_home(".parallax/policies/git.toml", &rule).expect("written");
            let mut command = world.command(&["-p", "go"]);
            command.env("PARALLAX_SANDBOX_TIER", tier);
            let done = finish(command);
            let answers = answers(&world.server);
            let output = format!("{tier} {permitted}: {answers:#?} {}", done.err());
            let text = if permitted { "# two\n" } else { "# one\n" };
            assert_eq!(world.read(".github/workflows/ci.yml"), text, "{output}");
            assert_eq!(world.read(".gitattributes"), text, "{output}");
            assert_eq!(world.home.project().join("AGENTS.md").exists(), permitted, "{output}");
            // No partial changes.
            assert_eq!(world.read("a"), text.trim_start_matches("# "), "{output}");
            assert!(answers[1].contains("Output: (empty)"), "{output}");
            assert_eq!(answers[0].contains("to write "), !permitted, "{output}");
        }
    }
}

#[test]
fn git_command_that_would_change_the_target_of_a_protected_link_needs_permission_first() {
    for (tier, permitted) in tiers().flat_map(|tier| [(tier, false), (tier, true)]) {
        let world = World::new(&commands(&["git checkout -q other"]));
        world.home.write("conf/rc", "one\n").expect("written");
        world.home.write("a", "one\n").expect("written");
        let root = world.home.project().canonicalize().expect("a path");
        std::os::unix::fs::symlink("conf/rc", root.join(".envrc")).expect("a link");
        git(&world, "", &["init", "-q", "-b", "main"]);
        git(&world, "", &["add", "."]);
        git(&world, "", &["commit", "-qm", "one"]);
        git(&world, "", &["checkout", "-qb", "other"]);
        world.home.write("conf/rc", "two\n").expect("written");
        world.home.write("a", "two\n").expect("written");
        git(&world, "", &["commit", "-qam", "two"]);
        git(&world, "", &["checkout", "-q", "main"]);
        let rule = match permitted {
            true => format!("permissions.fileSystem.write = [{:?}]\n", root.join("conf")),
            false => String::new(),
        };
        let rule = format!("{RULE}commandPrefix = \"git\"\n{rule}");
        world.home.write_home(".parallax/policies/git.toml", &rule).expect("written");
        let mut command = world.command(&["-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let done = finish(command);
        let answers = answers(&world.server);
        let output = format!("{tier} {permitted}: {answers:#?} {}", done.err());
        for name in ["conf/rc", "a"] {
            assert_eq!(world.read(name), if permitted { "two\n" } else { "one\n" }, "{output}");
        }
        assert_eq!(answers[0].contains("to write "), !permitted, "{output}");
    }
}

#[test]
fn removed_link_to_a_hidden_file_does_not_open_its_target() {
    // Landlock cannot hide files of the workspace.
    for tier in tiers().filter(|tier| *tier != "landlock") {
        let world = World::new(&commands(&["sh build", "cat keys/env sub/keys/env", "ls keys"]));
        for name in ["keys/env", "sub/keys/env"] {
            world.home.write(name, "SECRET").expect("written");
        }
        let root = world.home.project();
        std::os::unix::fs::symlink("keys/env", root.join(".env")).expect("a link");
        std::os::unix::fs::symlink("keys/env", root.join("sub/.env.local")).expect("a link");
        let script = "rm .env; ln -sfn /dev/null sub/.env.local; echo ran > inside\n";
        world.home.write("build", script).expect("written");
        world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
        let mut command = world.command(&["-p", "go"]);
        command.env("PARALLAX_SANDBOX_TIER", tier);
        let output = finish(command);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {}", output.err());
        let answers = answers(&world.server);
        assert!(!format!("{answers:?}").contains("SECRET"), "{tier}: {answers:?}");
    }
}

#[test]
fn security_page_lists_every_protected_name() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for names in TABLE {
        let listed: Vec<String> = names.patterns.iter().map(|name| format!("`{name}`")).collect();
        let may_change = match names.protection {
            Protection::Closed => "no",
            Protection::Instructions => "yes",
        };
        let row = format!("| {} | {} | {may_change} |", names.readers, listed.join(", "));
        assert!(page.lines().any(|line| line == row), "docs/security.md lacks this row:\n{row}");
    }
}
