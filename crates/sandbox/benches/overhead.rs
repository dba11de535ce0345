//! Measures the overhead of the sandbox: `/bin/true` alone, supervised, and confined with forty
//! hidden paths; and the overhead of the network broker for a command and for a connection.

#![expect(clippy::disallowed_methods, reason = "the bench starts the processes that it measures")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot start has nothing to measure")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use divan::Bencher;
use parallax_sandbox::{Launcher, Network, Plan, SessionNamespaces, Tier};

fn main() {
    divan::main();
}

fn launcher() -> Launcher {
    Launcher::from_program(env!("CARGO_BIN_EXE_confine").into())
}

fn run(bencher: Bencher<'_, '_>, change: impl Fn(&mut Plan)) {
    run_program(bencher, Path::new("/bin/true"), &[], change);
}

fn run_program(
    bencher: Bencher<'_, '_>,
    program: &Path,
    line: &[OsString],
    change: impl Fn(&mut Plan),
) {
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
    let (program, args) = launcher().command(&plan, program.as_os_str(), line).unwrap();
    let work: PathBuf = base.join("work");
    bencher.bench_local(|| {
        let status = Command::new(&program).args(&args).current_dir(&work).status().unwrap();
        assert!(status.success());
    });
}

#[divan::bench]
fn unsandboxed(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Command::new("/bin/true").status().unwrap());
}

#[divan::bench]
fn supervised(bencher: Bencher<'_, '_>) {
    run(bencher, |plan| plan.confine = false);
}

#[divan::bench]
fn in_shared_namespaces(bencher: Bencher<'_, '_>) {
    let Ok(session_namespaces) = SessionNamespaces::start_with(&launcher()) else { return };
    run(bencher, |plan| {
        plan.tier = Tier::Namespaces;
        plan.session_namespaces = Some(session_namespaces.pid());
    });
}

#[divan::bench]
fn with_network_broker(bencher: Bencher<'_, '_>) {
    let Ok(session_namespaces) = SessionNamespaces::start_with(&launcher()) else { return };
    if !has_broker_support() {
        return;
    }
    run(bencher, |plan| {
        plan.tier = Tier::Namespaces;
        plan.network = Network::External;
        plan.session_namespaces = Some(session_namespaces.pid());
    });
}

#[divan::bench]
fn landlock_with_network_broker(bencher: Bencher<'_, '_>) {
    if has_broker_support() {
        run(bencher, |plan| {
            plan.tier = Tier::Landlock;
            plan.network = Network::External;
        });
    }
}

/// A hundred connections that the kernel rejects immediately, with and without a network broker.
#[divan::bench(args = [Network::Host, Network::Loopback], sample_count = 30)]
fn hundred_connections(bencher: Bencher<'_, '_>, network: Network) {
    if network == Network::Loopback && !has_broker_support() {
        return;
    }
    // No server listens on this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|server| server.local_addr());
    let address = free.unwrap().to_string();
    let line = [OsString::from("knock"), OsString::from(address)];
    run_program(bencher, Path::new(env!("CARGO_BIN_EXE_confine")), &line, |plan| {
        plan.network = network
    });
}

fn has_broker_support() -> bool {
    launcher().probe().is_ok_and(|support| support.network_broker.is_supported)
}

#[divan::bench]
fn with_bubblewrap(bencher: Bencher<'_, '_>) {
    if Path::new("/usr/bin/bwrap").exists() {
        run(bencher, |plan| plan.tier = Tier::Bubblewrap);
    }
}

#[divan::bench]
fn landlock_only(bencher: Bencher<'_, '_>) {
    run(bencher, |plan| plan.tier = Tier::Landlock);
}
