//! The note for the model about a write that the sandbox denied, however the program reports it.

use crate::support::{World, answers, commands};

#[test]
fn denied_write_is_reported_however_the_program_words_it() {
    let lines = [
        "git -C ~/sub init -q zz",
        "pushd ~/sub >/dev/null; mkdir mm",
        "perl -e 'open(F, qq(>$ENV{HOME}/sub/p)) or die $!'",
        "perl -e 'open(F, qq(>$ENV{HOME}/sub/p)) or die $!'; echo done",
        "python3 -c \"import os; open(os.path.expanduser('~/sub/x'),'w')\" 2>&1 | tail -1",
        "sh -c 'echo x > ~/sub/y'; true",
    ];
    let world = World::new(&commands(&lines));
    world.home.write_home("sub/a", "a\n").expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    let found = answers(&world.server);
    assert_eq!(found.len(), lines.len());
    for (line, answer) in lines.iter().zip(&found) {
        assert!(answer.contains("[The sandbox denied"), "{line}: {answer}");
        assert!(!answer.contains("cannot mkdir zz to"), "{line}: {answer}");
    }
    // Where the line or the message names the path, its permission can be requested.
    for index in [0, 1] {
        assert!(found[index].contains("denied this command: to write /"), "{}", found[index]);
    }
}

#[test]
fn message_about_a_read_only_file_system_is_not_a_denial() {
    let world = World::new(&commands(&[
        "cat notes.md",
        "grep -rn read-only .",
        "cat err.log",
        "echo 'error: Read-only file system'",
        "head -1 err.log; tail -1 err.log",
    ]));
    let text = "# Read-only file system\nIf you see \"read-only file system\", remount it.\n";
    world.home.write("notes.md", text).expect("written");
    let log = "install: cannot create regular file '/opt/x': Read-only file system\n";
    world.home.write("err.log", log).expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    for answer in answers(&world.server) {
        assert!(!answer.contains("[The sandbox denied"), "{answer}");
    }
}

#[test]
fn file_written_only_in_the_private_tmp_is_reported() {
    let lines = ["echo x > ../out.txt", "cp notes.md ../copy.md", "echo x > /tmp/scratch.txt"];
    let world = World::new(&commands(&lines));
    world.home.write("notes.md", "notes\n").expect("written");
    world.run_ok(&["-y", "-p", "go"]);
    let found = answers(&world.server);
    let is_private = |answer: &String| answer.contains("was written there and not on this machine");
    let outside = world.home.project().parent().expect("a parent").join("out.txt");
    // Without namespaces, the write is denied or reaches the machine.
    if !outside.exists() && !found[0].contains("denied") {
        assert!(is_private(&found[0]), "{}", found[0]);
        assert!(is_private(&found[1]), "{}", found[1]);
    }
    assert!(!is_private(&found[2]), "{}", found[2]);
}
