//! Attacks on protected files that do not write them by their names: directories above them are
//! moved, permissions are requested for directories around them, and what Parallax trusts lies in
//! the workspace.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::protected_names::{RULE, tiers};
use crate::support::{World, answers, commands, finish};

/// Runs a script of shell lines in the sandbox, and returns what was printed as an error.
fn run(world: &World, tier: &str) -> String {
    world.home.write_home(".parallax/policies/all.toml", RULE).expect("written");
    let mut command = world.command(&["-p", "go", "--approval-mode", "auto_edit"]);
    command.env("PARALLAX_SANDBOX_TIER", tier);
    finish(command).err()
}

#[test]
fn directories_around_hidden_protected_files_are_not_replaced() {
    for tier in tiers() {
        let script = "exec 2>/dev/null\n\
            mv sub sub2; mkdir sub; echo evil > sub/.envrc\n\
            mv p q; mkdir p; echo evil > p/settings.json; echo ran > inside\n";
        let world = World::new(&commands(&["sh build"]));
        world.home.write("build", script).expect("written");
        world.home.write("sub/.envrc", "mine").expect("written");
        world.home.write("p/settings.json", "{}").expect("written");
        let target = world.home.project().join("p/settings.json");
        let link = world.home.home().join(".gemini/settings.json");
        std::fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        symlink(target, link).expect("a link");
        let error = run(&world, tier);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {error}");
        assert_eq!(world.read("sub/.envrc"), "mine", "{tier}: {error}");
        assert_eq!(world.read("p/settings.json"), "{}", "{tier}: {error}");
    }
}

#[test]
fn directory_permission_excludes_protected_files() {
    for tier in tiers() {
        let world = World::new("[{\"text\":\"none\"}]");
        let root = world.home.project().to_owned();
        let call = |folder: &std::path::Path| {
            let write = json!({"fileSystem": {"write": [folder]}});
            let args = json!({"command": "sh build", "additional_permissions": write});
            json!({"calls": [{"name": "run_shell_command", "args": args}]})
        };
        let script = json!([call(&root), call(&root.join("sub")), {"text": "done"}]);
        let world = World::in_home(world.home, &script.to_string());
        let names = [".mcp.json", "sub/.vscode/tasks.json", "sub/.claude/a.json", "conf/envrc"];
        let write = |name: &str| format!("mkdir -p $(dirname {name}); echo evil > {name}; true\n");
        let build: String = names.into_iter().map(write).collect();
        world
            .home
            .write("build", &format!("exec 2>/dev/null\n{build}echo ran > inside\n"))
            .expect("it");
        world.home.write("sub/.vscode/tasks.json", "mine").expect("written");
        world.home.write("conf/envrc", "mine").expect("written");
        symlink("conf/envrc", root.join(".envrc")).expect("a link");
        let error = run(&world, tier);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {error} {:?}", answers(&world.server));
        assert_eq!(world.read("sub/.vscode/tasks.json"), "mine", "{tier}: {error}");
        assert_eq!(world.read("conf/envrc"), "mine", "{tier}: {error}");
        for name in [".mcp.json", "sub/.claude/a.json"] {
            assert!(!root.join(name).exists(), "{tier}: {name}: {error}");
        }
    }
}

#[test]
fn linked_extension_in_the_workspace_is_protected() {
    let parts = ["gemini-extension.json", "hooks/hooks.json", "h.sh", "skills/s/SKILL.md"];
    let write = |path: &str| {
        let args = json!({"file_path": format!("ext/{path}"), "content": "evil"});
        json!({"calls": [{"name": "write_file", "args": args}]})
    };
    let mut script: Vec<_> = parts.into_iter().chain(["README.md"]).map(write).collect();
    script.push(json!({"text": "done"}));
    let world = World::new(&json!(script).to_string());
    let hook = json!({"hooks": {"SessionStart": [{"hooks": [
        {"type": "command", "command": "sh ${extensionPath}/h.sh"}]}]}});
    for (name, text) in [
        ("ext/gemini-extension.json", json!({"name": "ext", "version": "1.0.0"}).to_string()),
        ("ext/hooks/hooks.json", hook.to_string()),
        ("ext/h.sh", "true".to_owned()),
        ("ext/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\n".to_owned()),
    ] {
        world.home.write(name, &text).expect("written");
    }
    world.run_ok(&["extensions", "link", "ext", "--consent"]);
    world.run_ok(&["-p", "go", "--approval-mode", "auto_edit"]);
    for part in parts {
        assert_ne!(world.read(&format!("ext/{part}")), "evil", "{part}");
    }
    assert_eq!(world.read("ext/README.md"), "evil");
}

#[test]
fn protected_links_are_found_in_a_workspace_with_many_directories() {
    // More than a search can look at in its time.
    let script = "exec 2>/dev/null\n\
        python3 -c 'import os\nfor i in range(24):\n for j in range(500): os.makedirs(f\"build/{i}/{j}\")'\n";
    let world = World::new(&commands(&["sh build.sh", "sh w.sh"]));
    world.home.write("build.sh", script).expect("written");
    world
        .home
        .write("w.sh", "exec 2>/dev/null\necho evil > scripts/hk; echo ran > inside\n")
        .expect("it");
    world.home.write("scripts/hk", "mine").expect("written");
    world.home.write(".git/HEAD", "ref: refs/heads/main\n").expect("written");
    std::fs::create_dir_all(world.home.project().join(".git/hooks")).expect("a directory");
    symlink("../../scripts/hk", world.home.project().join(".git/hooks/pre-commit"))
        .expect("a link");
    let error = run(&world, "namespaces");
    assert_eq!(world.read("inside"), "ran\n", "{error}");
    assert_eq!(world.read("scripts/hk"), "mine", "{error}");
}

#[test]
fn directory_that_cannot_be_moved_is_explained() {
    let world = World::new(&commands(&["mv pk other"]));
    world.home.write("pk/.vscode/tasks.json", "mine").expect("written");
    run(&world, "namespaces");
    let answers = answers(&world.server);
    assert!(format!("{answers:?}").contains("cannot be moved or removed"), "{answers:?}");
    assert_eq!(world.read("pk/.vscode/tasks.json"), "mine");
}

#[test]
fn new_links_cannot_redirect_protected_links() {
    for tier in tiers() {
        let script = "exec 2>/dev/null\n\
            mkdir n; echo evil > n/rc; ln -s n missing\n\
            mkdir -p m/b; echo evil > m/b/rc; mv a z; ln -s m a\n\
            echo ran > inside\n";
        let world = World::new(&commands(&["sh build", "sh build"]));
        world.home.write("build", script).expect("written");
        world.home.write("a/b/rc", "mine").expect("written");
        let root = world.home.project();
        symlink(root.join("missing/rc"), world.home.home().join(".bashrc")).expect("a link");
        symlink(root.join("a/b/rc"), world.home.home().join(".profile")).expect("a link");
        let error = run(&world, tier);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {error}");
        let read = |name: &str| std::fs::read_to_string(world.home.home().join(name));
        assert!(read(".bashrc").is_err(), "{tier}: {error}");
        // Landlock lets a command move the directory, which leaves the link without a target.
        assert!(read(".profile").is_ok_and(|text| text == "mine") || tier == "landlock");
        assert!(!root.join("a").is_symlink(), "{tier}: {error}");
    }
}

#[test]
fn git_directory_of_a_nested_git_file_cannot_be_moved() {
    let script = "exec 2>/dev/null\n\
        mv gd gd2; mkdir -p evil/x/hooks; echo evil > evil/x/hooks/pre-commit; ln -s evil gd\n\
        echo evil > gd/x/hooks/pre-commit; echo ran > inside\n";
    for tier in tiers().filter(|tier| *tier != "landlock") {
        for line in ["sh build", "git status; sh build"] {
            let world = World::new(&commands(&[line]));
            world.home.write("build", script).expect("written");
            world.home.write("sub/.git", "gitdir: ../gd/x\n").expect("written");
            for (name, text) in [
                ("HEAD", "ref: refs/heads/main\n"),
                ("objects/keep", ""),
                ("refs/keep", ""),
                ("config", "[core]\n\tbare = false\n"),
                ("hooks/pre-commit", "mine"),
            ] {
                world.home.write(&format!("gd/x/{name}"), text).expect("written");
            }
            let error = run(&world, tier);
            assert_eq!(world.read("inside"), "ran\n", "{tier}: {error}");
            assert_eq!(world.read("gd/x/hooks/pre-commit"), "mine", "{tier} {line}: {error}");
        }
    }
}

#[test]
fn commands_cannot_be_planted_in_a_rebase_or_behind_a_lease() {
    let script = "exec 2>/dev/null\n\
        mkdir -p .git/rebase-merge .git/remotes\n\
        echo 'exec touch ran' > .git/rebase-merge/git-rebase-todo; echo 'URL: x' > .git/remotes/origin\n\
        echo evil > .vimrc\n\
        python3 -c 'import fcntl, os, time\n\
        f = os.open(\".vimrc\", os.O_RDWR); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        time.sleep(30)' &\n\
        sleep 0.3; echo ran > inside\n";
    for tier in tiers() {
        let world = World::new(&commands(&["sh build"]));
        world.home.write("build", script).expect("written");
        for (name, text) in [
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/objects/keep", ""),
            (".git/refs/keep", ""),
            (".git/config", "[core]\n\tbare = false\n"),
        ] {
            world.home.write(name, text).expect("written");
        }
        let error = run(&world, tier);
        assert_eq!(world.read("inside"), "ran\n", "{tier}: {error}");
        let root = world.home.project();
        for name in [".vimrc", ".git/rebase-merge/git-rebase-todo", ".git/remotes/origin"] {
            assert!(!root.join(name).exists(), "{tier}: {name}: {error}");
        }
    }
}

#[test]
fn program_that_a_command_changed_loses_its_capabilities() {
    let world = World::new(&commands(&["sh build"]));
    let change = "import mmap, os\nf = os.open(\"tool\", os.O_RDWR)\n\
        m = mmap.mmap(f, 0)\nm[0:4] = b\"evil\"\nm.close()\n";
    world.home.write("change.py", change).expect("written");
    world.home.write("build", "python3 change.py && echo ran > inside\n").expect("written");
    world.home.write("tool", "good tool").expect("written");
    let python = |script: &str| finish(world.shell(&format!("python3 -c '{script}'"), &[]));
    let set = "import os\nos.chmod(\"tool\", 0o755)\n\
        caps = bytes.fromhex(\"0100000280000000000000000000000000000000\")\n\
        os.setxattr(\"tool\", \"security.capability\", caps)\n";
    if !python(set).err().is_empty() {
        println!("capabilities cannot be set here: not tested");
        return;
    }
    let error = run(&world, "namespaces");
    assert_eq!(world.read("inside"), "ran\n", "{error}");
    let left = python("import os; print(os.listxattr(\"tool\"))");
    assert_eq!(left.stdout().trim(), "[]", "{error}");
    assert!(error.contains("tool"), "{error}");
}
