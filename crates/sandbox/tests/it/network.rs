//! What a command can reach.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use parallax_sandbox::{Network, Tier};

use crate::place::{EPERM, Place, cell, text, tiers, viewed};

const ENETUNREACH: i32 = 101;
const ECONNREFUSED: i32 = 111;
const NOWHERE: &str = "192.0.2.1:80";

#[test]
fn nothing_of_the_machine_can_be_reached() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    for tier in tiers() {
        let place = Place::new();
        let plan = place.plan(tier);
        place.refused(&plan, &["connect", NOWHERE], &[ENETUNREACH, EPERM]);
        place.refused(&plan, &["send", NOWHERE], &[ENETUNREACH, EPERM]);
        place.refused(&plan, &["connect", &address], &[ECONNREFUSED, EPERM]);
    }
}

#[test]
fn with_the_permission_the_machines_network_is_there() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    for tier in tiers() {
        let place = Place::new();
        let mut plan = place.plan(tier);
        plan.network = Network::Host;
        let mut child = place.command(&plan, &["confine", "connect", &address]);
        let child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
        server.accept().unwrap().0.write_all(b"there").unwrap();
        let said = child.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&said), "ok there\n", "{tier:?}");
    }
}

#[test]
fn one_command_reaches_the_server_of_another() {
    let Some(cell) = cell() else { return };
    let place = Place::new();
    let mut plan = place.plan(Tier::Namespaces);
    plan.cell = Some(cell.pid());
    let before = cell.unroutable();
    let script = "confine serve 127.0.0.1:80 /tmp/ready & while ! [ -e /tmp/ready ]; do :; done";
    let (code, said) = place.shell(&plan, &format!("({script}) >/dev/null 2>&1"));
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.say(&plan, &["connect", "127.0.0.1:80"]), "ok hello");
    assert_eq!(cell.unroutable(), before);
    place.refused(&plan, &["connect", NOWHERE], &[ENETUNREACH]);
    assert!(cell.unroutable() > before);
}

#[test]
fn sockets_of_the_machine_are_out_of_reach_unless_named() {
    for tier in tiers() {
        let place = Place::new();
        let agent = place.home.join("agent.sock");
        let _server = UnixListener::bind(&agent).unwrap();
        let mut plan = place.plan(tier);
        // No address, a covered one, or no permission: whichever wall comes first.
        let said = place.say(&plan, &["unix", text(&agent)]);
        let outside_of_tmp = !place.home.starts_with("/tmp");
        if tier == Tier::Landlock || outside_of_tmp {
            assert!(said.starts_with("refused"), "{tier:?}: {said}");
        }
        plan.sockets.push(agent.clone());
        place.works(&plan, &["unix", text(&agent)]);
    }
}

#[test]
fn servers_of_the_machine_in_the_workspace_are_out_of_reach() {
    for tier in viewed() {
        let place = Place::new();
        let deep = place.work.join("a/b/c/d e");
        std::fs::create_dir_all(&deep).unwrap();
        let socket = deep.join("my sock");
        let _server = UnixListener::bind(&socket).unwrap();
        let mut plan = place.plan(tier);
        let said = place.say(&plan, &["unix", text(&socket)]);
        assert!(said.starts_with("refused"), "{tier:?}: {said}");
        plan.network = Network::Host;
        place.works(&plan, &["unix", text(&socket)]);
    }
}

#[test]
fn the_container_daemon_is_out_of_reach() {
    for tier in viewed() {
        let place = Place::new();
        let mut plan = place.plan(tier);
        plan.network = Network::Host;
        let said = place.shell(&plan, "ls -A /run /var/run/ | grep -v -e : -e '^$'; true").1;
        for name in ["docker", "containerd", "dbus", "user", "podman"] {
            assert!(!said.contains(name), "{said}");
        }
    }
}
