//! Tests of what a command may write and read.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parallax_sandbox::{Access, Network, PlaceholderFile, SupervisorError, Tier};
use rustix::fs::CWD;

use crate::test_project::{
    EACCES, ENOENT, EROFS, TestProject, has, session_namespaces, support, text, tiers,
    tiers_with_view,
};

#[test]
fn only_the_workspace_and_the_private_folder_can_be_written() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        project.works(&plan, &["write", text(&project.work.join("src/a"))]);
        project.works(&plan, &["write", "/dev/null"]);
        for path in [project.home.join(".profile"), project.home.join("new"), "/etc/x".into()] {
            project.refused(&plan, &["write", text(&path)], &[EACCES, EROFS]);
            assert!(path.starts_with("/tmp") || plan.denies(&path, Access::Write));
        }
        let (code, output) = project.shell(&plan, "echo x > \"$TMPDIR/t\" && cat \"$TMPDIR/t\"");
        assert_eq!((code, output.trim()), (0, "x"), "{tier:?}");
        project.refused(&plan, &["write", "/proc/sys/kernel/core_pattern"], &[EACCES, EROFS]);
    }
}

#[test]
fn protected_paths_cannot_be_changed_or_moved() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        project.works(&plan, &["write", text(&project.work.join(".git/objects/1"))]);
        project.refused(
            &plan,
            &["write", text(&project.work.join(".git/hooks/pre-commit"))],
            &[EROFS],
        );
        project.refused(&plan, &["write", text(&project.work.join(".git/config"))], &[EROFS]);
        for script in [
            "mv .git .git2",
            "mv .git/hooks .git/h && mkdir .git/hooks",
            "rm -rf .git/hooks && mkdir .git/hooks && touch .git/hooks/x",
            "echo x > c && mv c .git/config",
            "ln .git/config l && echo x > l",
            "chmod 777 .git/hooks",
        ] {
            let (code, output) = project.shell(&plan, script);
            assert_ne!(code, 0, "{script}: {output}");
        }
        assert_eq!(fs::read_to_string(project.work.join(".git/config")).unwrap(), "secret");
        assert_eq!(fs::read_dir(project.work.join(".git/hooks")).unwrap().count(), 0);
        assert_eq!(plan.unprotected_paths(), [project.work.join(".vscode")]);
    }
}

#[test]
fn writable_folder_with_protected_files_cannot_be_moved_away() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        // As for git.
        let mut plan = project.plan(tier);
        plan.writable.push(project.work.join(".git"));
        project.works(&plan, &["write", text(&project.work.join(".git/index"))]);
        for script in ["mv .git .g", "mv .git/hooks .git/h", "rm -rf .git"] {
            let (code, output) = project.shell(&plan, script);
            assert_ne!(code, 0, "{tier:?} {script}: {output}");
        }
        assert_eq!(fs::read_to_string(project.work.join(".git/config")).unwrap(), "secret");
    }
}

#[test]
fn owners_modes_and_times_change_in_the_workspace_alone() {
    for tier in tiers() {
        if tier == Tier::Landlock && !support().network_broker.is_supported {
            println!("skipped: no filter that asks here: {}", support().network_broker.detail);
            continue;
        }
        let project = TestProject::new();
        let plan = project.plan(tier);
        let outside = project.home.join(".profile");
        let before = fs::metadata(&outside).unwrap();
        symlink(&outside, project.work.join("link")).unwrap();
        let out = text(&outside);
        for script in [
            format!("chmod 777 {out}"),
            format!("touch -d 2001-01-01 {out}"),
            format!("chown 65534 {out}"),
            "chmod 777 link".to_owned(),
            "chmod 777 ../.profile".to_owned(),
            format!("chmod 777 /proc/self/fd/3 3< {out}"),
            format!("chmod 777 /dev/fd/3 3< {out}"),
        ] {
            let (code, output) = project.shell(&plan, &script);
            assert_ne!(code, 0, "{tier:?} {script}: {output}");
        }
        let after = fs::metadata(&outside).unwrap();
        assert_eq!(after.permissions(), before.permissions());
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        let script = "touch a && chmod 640 a && touch -d 2001-01-01 a && cp -p a b && ln -s a c \
                      && touch -h -d 2001-01-01 c && stat -c '%a %Y' a b && stat -c %Y c \
                      && chmod 700 \"$TMPDIR\" && chown $(id -u) a";
        let (code, output) = project.shell(&plan, script);
        assert_eq!(code, 0, "{tier:?}: {output}");
        let lines: Vec<&str> = output.lines().collect();
        assert!(lines[0].starts_with("640 97") && lines[0] == lines[1], "{tier:?}: {output}");
        assert!(lines[2].starts_with("97"), "{tier:?}: {output}");
    }
}

#[test]
fn directories_of_the_host_cannot_be_changed_through_other_processes() {
    let namespaces = session_namespaces();
    for tier in tiers() {
        let project = TestProject::new();
        let mut plan = project.plan(tier);
        if tier == Tier::Namespaces {
            plan.session_namespaces = namespaces.as_ref().map(|namespaces| namespaces.pid());
        }
        let folder = project.home.join(".ssh");
        let before = fs::metadata(&folder).unwrap().permissions();
        let path = text(&folder);
        let script = format!(
            "import os\n\
             for pid in filter(str.isdigit, os.listdir('/proc')):\n \
             if pid == str(os.getpid()): continue\n \
             for link in ('root{path}', 'cwd/../.ssh', 'cwd/../../..{path}'):\n  \
             try: os.chmod(f'/proc/{{pid}}/{{link}}', 0o2777); print('changed', pid, link)\n  \
             except OSError: pass"
        );
        let output = project.output(&plan, &["python3", "-c", &script]);
        assert!(output.status.success(), "{tier:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{tier:?}");
        assert_eq!(fs::metadata(&folder).unwrap().permissions(), before, "{tier:?}");
    }
}

#[test]
fn hidden_paths_return_permission_denied() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        for path in [".ssh/id", ".netrc"] {
            project.refused(&plan, &["read", text(&project.home.join(path))], &[EACCES]);
        }
        project.works(&plan, &["read", text(&project.home.join(".profile"))]);
        if tier != Tier::Landlock {
            project.refused(&plan, &["list", text(&project.home.join(".ssh"))], &[EACCES]);
            project.refused(&plan, &["read", text(&project.work.join(".env"))], &[EACCES]);
            project.refused(
                &plan,
                &["write", text(&project.home.join(".ssh/id"))],
                &[EACCES, EROFS],
            );
            // Nor under another name.
            let (code, _) = project.shell(&plan, "ln .env e && cat e || mv .env e || rm .env");
            assert_ne!(code, 0);
        }
        assert!(project.home.join(".ssh/id").exists());
    }
}

#[test]
fn hidden_path_in_an_opened_directory_stays_hidden() {
    for tier in tiers() {
        let project = TestProject::new();
        let cache = project.home.join("cache");
        fs::create_dir_all(cache.join("registry")).unwrap();
        fs::write(cache.join("token"), "secret").unwrap();
        fs::write(cache.join("settings"), "plain").unwrap();
        let mut plan = project.plan(tier);
        plan.writable.push(cache.clone());
        plan.readable.push(cache.clone());
        plan.hidden.push(cache.join("token"));
        project.refused(&plan, &["read", text(&cache.join("token"))], &[EACCES]);
        project.works(&plan, &["read", text(&cache.join("settings"))]);
        let (code, output) =
            project.shell(&plan, "echo x > ../cache/registry/x && cat ../cache/registry/x");
        assert_eq!(code, 0, "{tier:?}: {output}");
        let (code, output) = project
            .shell(&plan, "mv ../cache/token ../cache/registry/t && cat ../cache/registry/t");
        assert_ne!(code, 0, "{tier:?}: {output}");
    }
}

#[test]
fn copy_of_a_directory_omits_its_hidden_entries() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let (code, output) = project.shell(&project.plan(tier), "cp -r . /tmp/copy");
        assert_ne!(code, 0, "{tier:?}");
        assert!(output.contains(".env"), "{output}");
        let copy = project.temporary.join("tmp/copy");
        assert!(copy.join(".git/config").exists(), "{output}");
        assert!(copy.join(".env").symlink_metadata().is_err(), "{tier:?}: {output}");
    }
}

#[test]
fn placeholder_of_a_hidden_file_has_its_metadata_and_cannot_be_read() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let mut plan = project.plan(tier);
        let path = project.work.join(".env");
        let looks = PlaceholderFile {
            path: path.clone(),
            size: 7,
            modified: 1_700_000_000,
            executable: true,
        };
        plan.placeholders.push(looks);
        let (code, output) =
            project.shell(&plan, "stat -c '%F %s %Y' .env; chmod 700 .env; cat .env");
        assert_ne!(code, 0, "{tier:?}");
        assert!(output.contains("regular file 7 1700000000"), "{tier:?}: {output}");
        project.refused(&plan, &["read", text(&path)], &[EACCES]);
        project.refused(&plan, &["write", text(&path)], &[EACCES, EROFS]);
        assert_eq!(fs::read_to_string(path).unwrap(), "secret");
    }
}

#[test]
fn only_the_exception_in_a_hidden_directory_is_visible() {
    for tier in tiers() {
        let project = TestProject::new();
        fs::write(project.home.join(".ssh/known_hosts"), "k").unwrap();
        let mut plan = project.plan(tier);
        plan.readable.push(project.home.join(".ssh/known_hosts"));
        project.works(&plan, &["read", text(&project.home.join(".ssh/known_hosts"))]);
        project.refused(&plan, &["read", text(&project.home.join(".ssh/id"))], &[EACCES, ENOENT]);
        project.refused(&plan, &["write", text(&project.home.join(".ssh/new"))], &[EACCES, EROFS]);
        if tier != Tier::Landlock {
            project.refused(&plan, &["list", text(&project.home.join(".ssh"))], &[EACCES]);
        }
    }
}

#[test]
fn link_replacing_a_plan_path_is_not_followed() {
    if !has(Tier::Namespaces) {
        return;
    }
    let project = TestProject::new();
    let plan = project.plan(Tier::Namespaces);
    symlink(project.home.join(".profile"), project.work.join(".vscode")).unwrap();
    fs::remove_file(project.work.join(".env")).unwrap();
    symlink("/bin/sh", project.work.join(".env")).unwrap();
    let (code, said) = project.shell(&plan, "rm .vscode || mv .vscode v || echo x > .vscode");
    assert_ne!(code, 0, "{said}");
    // The planted name did not hide the shell itself.
    assert_eq!(project.shell(&plan, "echo here").1.trim(), "here");

    let mut plan = project.plan(Tier::Namespaces);
    symlink("/etc", project.work.join("granted")).unwrap();
    plan.writable.push(project.work.join("granted"));
    let output = project.output(&plan, &["true"]);
    let refusal = SupervisorError::read(
        output.status.code().unwrap_or(0),
        &String::from_utf8_lossy(&output.stderr),
    );
    assert!(refusal.unwrap().message.contains("symbolic link"));
}

#[test]
fn granted_folder_below_a_protected_one_can_be_written() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let granted = project.work.join(".git/hooks/mine");
        fs::create_dir(&granted).unwrap();
        let mut plan = project.plan(tier);
        plan.writable.push(granted.clone());
        project.works(&plan, &["write", text(&granted.join("a"))]);
        project.refused(&plan, &["write", text(&project.work.join(".git/hooks/b"))], &[EROFS]);
    }
}

#[test]
fn temporary_directory_is_private_and_persists() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let name = format!("/tmp/sandbox-test-{}", std::process::id());
        project.works(&plan, &["write", &name]);
        project.works(&plan, &["read", &name]);
        assert!(!fs::exists(&name).unwrap());
        let listed = project.shell(&plan, "echo /tmp/* /run/*; touch /dev/shm/a && echo shm").1;
        assert!(listed.contains(&name) && listed.contains("shm"), "{listed}");
        // A leftover at a mount point does not stop the next command.
        let place_of_home = project.home.ancestors().find(|p| p.parent() == Some("/tmp".as_ref()));
        if let Some(top) = place_of_home {
            let left = project.temporary.join("tmp").join(top.file_name().unwrap());
            fs::remove_dir_all(&left).unwrap();
            symlink("/etc", &left).unwrap();
            project.works(&plan, &["write", text(&project.work.join("after"))]);
        }
    }
}

#[test]
fn cache_writes_go_to_a_private_layer() {
    if !has(Tier::Namespaces) || !support().overlay.is_supported {
        println!("skipped: no overlays here: {}", support().overlay.detail);
        return;
    }
    let project = TestProject::new();
    let cache = project.home.join("cache");
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("old"), "o").unwrap();
    let mut plan = project.plan(Tier::Namespaces);
    plan.overlays.push(cache.clone());
    project.works(&plan, &["write", text(&cache.join("new"))]);
    project.works(&plan, &["write", text(&cache.join("old"))]);
    project.works(&plan, &["read", text(&cache.join("new"))]);
    assert!(!cache.join("new").exists());
    assert_eq!(fs::read_to_string(cache.join("old")).unwrap(), "o");

    // A second command at the same time sees what the first one wrote before.
    let mut first = project
        .command(&plan, &["sh", "-c", "echo ready; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    std::io::Read::read_exact(first.stdout.as_mut().unwrap(), &mut byte).unwrap();
    project.works(&plan, &["read", text(&cache.join("new"))]);
    project.works(&plan, &["write", text(&cache.join("second"))]);
    drop(first.stdin.take());
    first.wait().unwrap();
}

#[test]
fn files_of_other_users_stay_usable_for_root() {
    if !rustix::process::geteuid().is_root() || !has(Tier::Namespaces) {
        println!("skipped: not root");
        return;
    }
    let project = TestProject::new();
    let path = project.work.join("theirs");
    fs::write(&path, "t").unwrap();
    std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let plan = project.plan(Tier::Namespaces);
    project.works(&plan, &["write", text(&path)]);
    let (code, output) = project.shell(&plan, "chmod 640 theirs && stat -c '%u %a' theirs");
    assert_eq!((code, output.as_str()), (0, "12345 640\n"));
}

#[test]
fn archive_of_another_users_files_is_unpacked_by_root() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root");
        return;
    }
    for tier in tiers() {
        let project = TestProject::new();
        let make = "tar -C src --owner=12345 --group=12345 -cf archive.tar . && rm -r src";
        fs::write(project.work.join("src/a"), "a").unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", make]).current_dir(&project.work);
        assert!(command.status().unwrap().success());
        let plan = project.plan(tier);
        let (code, output) =
            project.shell(&plan, "mkdir out && tar -C out -xf archive.tar && cat out/a");
        assert_eq!((code, output.as_str()), (0, "a"), "{tier:?}");
    }
}

#[test]
fn long_plan_is_passed_by_a_file_that_is_removed() {
    let project = TestProject::new();
    for tier in tiers() {
        let mut plan = project.plan(tier);
        plan.network = Network::Isolated;
        plan.hidden.extend((0..4000).map(|n| project.home.join(format!("missing-{n:060}"))));
        project.works(&plan, &["write", text(&project.work.join("a"))]);
        let left = fs::read_dir(&project.temporary).unwrap().flatten();
        assert!(left.map(|e| e.file_name()).all(|name| !name.to_string_lossy().contains("plan")));
    }
}

#[test]
fn concurrent_first_commands_share_precreated_paths() {
    for tier in tiers_with_view() {
        for _ in 0..4 {
            let project = TestProject::new();
            let plan = project.plan(tier);
            std::thread::scope(|commands| {
                for _ in 0..6 {
                    commands.spawn(|| {
                        let (code, output) = project.shell(&plan, "echo here > src/file");
                        assert_eq!(code, 0, "{tier:?}: {output}");
                    });
                }
            });
        }
    }
}

#[test]
fn directories_exchanged_with_links_open_no_hidden_path() {
    if !has(Tier::Landlock) {
        return;
    }
    let project = TestProject::new();
    let plan = project.plan(Tier::Landlock);
    let pairs: Vec<_> = (0..60)
        .map(|number| {
            let [folder, link] =
                ["f", "g"].map(|name| project.work.join(format!("{name}{number}")));
            fs::create_dir(&folder).unwrap();
            symlink(project.home.join(".ssh"), &link).unwrap();
            (folder, link)
        })
        .collect();
    let stop = AtomicBool::new(false);
    let leaked = std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !stop.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60) {
                for (folder, link) in &pairs {
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, folder, CWD, link, flags).unwrap();
                }
            }
        });
        let secret = project.home.join(".ssh/id");
        let line = ["read", text(&secret)];
        let outputs: Vec<_> = (0..60).map(|_| project.output_in_sandbox(&plan, &line)).collect();
        stop.store(true, Ordering::Relaxed);
        outputs.into_iter().filter(|output| !output.starts_with("refused 13")).collect::<Vec<_>>()
    });
    assert!(leaked.is_empty(), "{leaked:?}");
}

#[test]
fn null_device_of_the_host_cannot_be_changed_through_standard_streams() {
    if !has(Tier::Namespaces) {
        return;
    }
    let project = TestProject::new();
    let plan = project.plan(Tier::Namespaces);
    // The mode that it has. An ordinary user may not set it, either.
    let script = "for n in 0 1 2; do chmod 666 /proc/self/fd/$n && touch changed-$n; done";
    let status = project
        .command(&plan, &["sh", "-c", script])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    for number in 0..3 {
        assert!(!project.work.join(format!("changed-{number}")).exists(), "{number}");
    }
}
