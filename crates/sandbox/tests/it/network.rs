//! Tests of what a command can reach.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixDatagram, UnixListener};

use parallax_sandbox::{Network, Plan, Tier};

use crate::test_project::{
    EACCES, EPERM, TestProject, broker_tiers, session_namespaces, text, tiers, tiers_with_view,
};

const ENETUNREACH: i32 = 101;
const ECONNREFUSED: i32 = 111;
const NOWHERE: &str = "192.0.2.1:80";

#[test]
fn local_and_remote_servers_are_unreachable() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        project.refused(&plan, &["connect", NOWHERE], &[ENETUNREACH, EPERM]);
        project.refused(&plan, &["send", NOWHERE], &[ENETUNREACH, EPERM]);
        project.refused(&plan, &["connect", &address], &[ECONNREFUSED, EPERM]);
    }
}

#[test]
fn host_network_is_available_with_permission() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    for tier in tiers() {
        let project = TestProject::new();
        let mut plan = project.plan(tier);
        plan.network = Network::Host;
        let mut child = project.command(&plan, &["confine", "connect", &address]);
        let child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
        server.accept().unwrap().0.write_all(b"there").unwrap();
        let output = child.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&output), "ok there\n", "{tier:?}");
    }
}

#[test]
fn command_can_reach_the_server_of_another_command() {
    let Some(session_namespaces) = session_namespaces() else { return };
    let project = TestProject::new();
    let mut plan = project.plan(Tier::Namespaces);
    plan.session_namespaces = Some(session_namespaces.pid());
    let before = session_namespaces.unroutable_attempts();
    let script = "confine serve 127.0.0.1:80 /tmp/ready & while ! [ -e /tmp/ready ]; do :; done";
    let (code, output) = project.shell(&plan, &format!("({script}) >/dev/null 2>&1"));
    assert_eq!(code, 0, "{output}");
    assert_eq!(project.output_in_sandbox(&plan, &["connect", "127.0.0.1:80"]), "ok hello");
    assert_eq!(session_namespaces.unroutable_attempts(), before);
    project.refused(&plan, &["connect", NOWHERE], &[ENETUNREACH]);
    assert!(session_namespaces.unroutable_attempts() > before);
}

#[test]
fn sockets_of_the_machine_are_out_of_reach_unless_named() {
    for tier in tiers() {
        let project = TestProject::new();
        let agent = project.home.join("agent.sock");
        let _server = UnixListener::bind(&agent).unwrap();
        let mut plan = project.plan(tier);
        // No address, a covered one, or no permission, depending on which mechanism applies first.
        let output = project.output_in_sandbox(&plan, &["unix", text(&agent)]);
        let outside_of_tmp = !project.home.starts_with("/tmp");
        if tier != Tier::Bubblewrap || outside_of_tmp {
            assert!(output.starts_with("refused"), "{tier:?}: {output}");
        }
        plan.sockets.push(agent.clone());
        project.works(&plan, &["unix", text(&agent)]);
    }
}

#[test]
fn permission_for_one_socket_does_not_open_others() {
    for tier in tiers() {
        for network in [Network::Isolated, Network::Host, Network::External] {
            let project = TestProject::new();
            // A server that starts later is not covered.
            let mut plan = Plan { network, ..project.plan(tier) };
            let [agent, other] = ["agent.sock", "other.sock"].map(|name| project.home.join(name));
            let _servers = [&agent, &other].map(|path| {
                // A relative name is not known to be a path of the home directory.
                let folder = std::fs::File::open(&project.home).unwrap();
                let name = path.file_name().unwrap().to_str().unwrap();
                UnixListener::bind(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())).unwrap()
            });
            plan.sockets.push(agent.clone());
            project.works(&plan, &["unix", text(&agent)]);
            let output = project.output_in_sandbox(&plan, &["unix", text(&other)]);
            assert!(output.starts_with("refused"), "{tier:?} {network:?}: {output}");
            plan.sockets.clear();
            let output = project.output_in_sandbox(&plan, &["unix", text(&other)]);
            assert!(output.starts_with("refused"), "{tier:?} {network:?}: {output}");
        }
    }
}

#[test]
fn own_abstract_sockets_are_reachable_and_others_are_not() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::SocketAddr;

    let script = "import socket, sys\n\
        server = socket.socket(socket.AF_UNIX)\n\
        server.bind('\\0own-' + sys.argv[1])\n\
        server.listen()\n\
        socket.socket(socket.AF_UNIX).connect('\\0own-' + sys.argv[1])\n\
        print('own')\n\
        try: socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1])\n\
        except OSError: print('refused')\n";
    for tier in tiers_with_view() {
        for network in [Network::Isolated, Network::Host, Network::External] {
            let project = TestProject::new();
            let name = format!("parallax-test-{}-{tier:?}-{network:?}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            let _server = UnixListener::bind_addr(&address).unwrap();
            let plan = Plan { network, ..project.plan(tier) };
            let output = project.output(&plan, &["/usr/bin/python3", "-c", script, &name]);
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output, "own\nrefused\n", "{tier:?} {network:?}");
        }
    }
}

#[test]
fn servers_of_the_machine_in_the_workspace_are_out_of_reach() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let deep = project.work.join("a/b/c/d e");
        std::fs::create_dir_all(&deep).unwrap();
        let socket = deep.join("my sock");
        let _server = UnixListener::bind(&socket).unwrap();
        let mut plan = project.plan(tier);
        let output = project.output_in_sandbox(&plan, &["unix", text(&socket)]);
        assert!(output.starts_with("refused"), "{tier:?}: {output}");
        plan.network = Network::Host;
        project.works(&plan, &["unix", text(&socket)]);
    }
}

#[test]
fn alternative_addresses_do_not_reach_local_servers() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let at = |name: &str| project.work.join(name);
        // A name that means another directory to other processes, as a relative one does.
        let folder = std::fs::File::open(&project.work).unwrap();
        let through = format!("/proc/self/fd/{}/relative", folder.as_raw_fd());
        let mut servers = vec![UnixListener::bind(through).unwrap()];
        let before = [at("before"), project.home.join("outside"), at("above/../dots")];
        std::fs::create_dir(at("above")).unwrap();
        servers.extend(before.iter().map(|path| UnixListener::bind(path).unwrap()));
        std::fs::rename(&before[0], at("renamed")).unwrap();
        std::fs::hard_link(&before[1], at("linked")).unwrap();
        let packets = UnixDatagram::bind(&before[0]).unwrap();
        packets.set_nonblocking(true).unwrap();
        std::fs::rename(&before[0], at("packets")).unwrap();
        for network in [Network::Isolated, Network::External, Network::Loopback] {
            if network == Network::Loopback && !broker_tiers().contains(&tier) {
                continue;
            }
            let plan = Plan { network, ..project.plan(tier) };
            for name in ["relative", "renamed", "linked", "dots"] {
                let way = format!("/proc/self/cwd/{name}");
                for path in [text(&at(name)), name, &way] {
                    project.refused(&plan, &["unix", path], &[EACCES]);
                }
            }
            project.refused(&plan, &["send-unix", "packets"], &[EACCES]);
            assert!(packets.recv(&mut [0; 8]).is_err(), "a packet came through");
        }
        // A socket without a server is distinguished from that.
        drop(servers);
        project.refused(&project.plan(tier), &["unix", "renamed"], &[ECONNREFUSED]);
    }
}

#[test]
fn own_unix_sockets_are_reachable_and_others_are_not() {
    for tier in tiers_with_view() {
        for network in [Network::Isolated, Network::External] {
            let project = TestProject::new();
            let plan = Plan { network, ..project.plan(tier) };
            let script = "confine serve-unix own $TMPDIR/ready & S=$!; \
                while ! [ -e $TMPDIR/ready ]; do :; done; mv own moved; \
                confine unix moved; confine unix /proc/self/cwd/moved; \
                confine send-unix own.packets; kill $S; wait $S; confine unix moved";
            let (_, output) = project.shell(&plan, script);
            let lines: Vec<&str> = output.lines().filter(|line| !line.contains("kill")).collect();
            assert_eq!(lines[..3], ["ok "; 3], "{tier:?} {network:?}: {output}");
            assert!(output.contains("refused 111"), "{tier:?} {network:?}: {output}");

            let mut other = project.command(&plan, &["confine", "serve-unix", "other", "ready"]);
            let mut other = other.spawn().unwrap();
            while !project.work.join("ready").exists() {
                assert!(other.try_wait().unwrap().is_none(), "the server ended");
                std::thread::yield_now();
            }
            project.refused(&plan, &["unix", "other"], &[EACCES]);
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}

#[test]
fn one_command_reaches_the_unix_socket_of_another() {
    let Some(session_namespaces) = session_namespaces() else { return };
    let project = TestProject::new();
    for network in [Network::Isolated, Network::External] {
        let name = format!("{network:?}");
        let plan = |network| Plan {
            session_namespaces: Some(session_namespaces.pid()),
            network,
            ..project.plan(Tier::Namespaces)
        };
        let script = format!(
            "confine serve-unix {name} /tmp/{name} & while ! [ -e /tmp/{name} ]; do :; done"
        );
        let (code, output) = project.shell(&plan(network), &format!("({script}) >/dev/null 2>&1"));
        assert_eq!(code, 0, "{output}");
        project.works(&plan(network), &["unix", &name]);
    }
}

#[test]
fn container_daemon_is_out_of_reach() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let mut plan = project.plan(tier);
        plan.network = Network::Host;
        let output = project.shell(&plan, "ls -A /run /var/run/ | grep -v -e : -e '^$'; true").1;
        for name in ["docker", "containerd", "dbus", "user", "podman"] {
            assert!(!output.contains(name), "{output}");
        }
    }
}
