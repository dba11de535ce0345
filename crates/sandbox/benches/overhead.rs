//! What the sandbox adds to a command: `/bin/true` alone, supervised, and
//! confined with forty hidden paths.

#![expect(clippy::disallowed_methods, reason = "the bench starts the processes that it measures")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot start has nothing to measure")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use divan::Bencher;
use parallax_sandbox::{Cell, Launcher, Plan, Tier};

fn main() {
    divan::main();
}

fn launcher() -> Launcher {
    Launcher::from_program(env!("CARGO_BIN_EXE_confine").into())
}

fn run(bencher: Bencher<'_, '_>, change: impl Fn(&mut Plan)) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let mut plan = Plan::new(base.join("private"));
    plan.writable = vec![base.join("work")];
    plan.read_only =
        [".git/hooks", ".git/config", ".vscode"].map(|p| base.join("work").join(p)).into();
    plan.hidden = (0..40).map(|number| base.join(format!("hidden-{number}"))).collect();
    for path in plan.hidden.iter().chain(&plan.read_only) {
        std::fs::create_dir_all(path).unwrap();
    }
    change(&mut plan);
    let (program, args) = launcher().command(&plan, OsStr::new("/bin/true"), &[]).unwrap();
    let work: PathBuf = base.join("work");
    bencher.bench_local(|| {
        let status = Command::new(&program).args(&args).current_dir(&work).status().unwrap();
        assert!(status.success());
    });
}

#[divan::bench]
fn alone(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Command::new("/bin/true").status().unwrap());
}

#[divan::bench]
fn supervised(bencher: Bencher<'_, '_>) {
    run(bencher, |plan| plan.confine = false);
}

#[divan::bench]
fn in_the_sessions_cell(bencher: Bencher<'_, '_>) {
    let Ok(cell) = Cell::start_with(&launcher()) else { return };
    run(bencher, |plan| {
        plan.tier = Tier::Namespaces;
        plan.cell = Some(cell.pid());
    });
}

#[divan::bench]
fn landlock_only(bencher: Bencher<'_, '_>) {
    run(bencher, |plan| plan.tier = Tier::Landlock);
}
