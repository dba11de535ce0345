//! Tests of the network broker: other hosts without servers on this host, and the other way round.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use parallax_sandbox::{Network, Plan, Tier};

use crate::test_project::{EACCES, TestProject, broker_tiers, session_namespaces, text};

const ENETUNREACH: i32 = 101;
const ECONNREFUSED: i32 = 111;
const FAR: &str = "192.0.2.1:9";

fn plan(project: &TestProject, tier: Tier, network: Network) -> Plan {
    Plan { network, ..project.plan(tier) }
}

/// Returns the address by which other hosts know this one, if any.
fn external_address() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(FAR).ok()?;
    let own = socket.local_addr().unwrap();
    (!own.ip().is_loopback() && !own.ip().is_unspecified()).then_some(own)
}

#[test]
fn network_permission_does_not_reach_local_servers() {
    let server = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let six = TcpListener::bind("[::1]:0").ok().map(|server| server.local_addr().unwrap());
    let packets = UdpSocket::bind("127.0.0.1:0").unwrap();
    packets.set_nonblocking(true).unwrap();
    let to_packets = packets.local_addr().unwrap().to_string();
    let four = ["127.0.0.1", "127.7.7.7", "0.0.0.0", "[::ffff:127.0.0.1]", "[::]", "localhost"];
    let mut addresses: Vec<String> = four.iter().map(|host| format!("{host}:{port}")).collect();
    addresses.extend(six.map(|address| address.to_string()));
    addresses.extend(external_address().map(|own| format!("{}:{port}", own.ip())));
    for tier in broker_tiers() {
        let project = TestProject::new();
        let plan = plan(&project, tier, Network::External);
        for address in &addresses {
            project.refused(&plan, &["connect", address], &[ECONNREFUSED]);
        }
        for way in ["send", "send-message", "send-connected"] {
            project.refused(&plan, &[way, &to_packets], &[ECONNREFUSED]);
        }
        assert!(packets.recv(&mut [0; 8]).is_err(), "a packet came through");
        // Remote addresses behave as outside the sandbox.
        let outside = UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", FAR).is_ok();
        for way in ["send", "send-message", "send-connected"] {
            assert_eq!(
                project.output_in_sandbox(&plan, &[way, FAR]).starts_with("ok"),
                outside,
                "{tier:?} {way}"
            );
        }
    }
}

#[test]
fn local_server_permission_reaches_only_the_loopback() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let packets = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to_packets = packets.local_addr().unwrap().to_string();
    for tier in broker_tiers() {
        let project = TestProject::new();
        let plan = plan(&project, tier, Network::Loopback);
        for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
            let named = format!("{host}:{}", address.port());
            let mut child = project.command(&plan, &["confine", "connect", &named]);
            let child = child.stdout(Stdio::piped()).spawn().unwrap();
            server.accept().unwrap().0.write_all(b"there").unwrap();
            let output = child.wait_with_output().unwrap().stdout;
            assert_eq!(String::from_utf8_lossy(&output), "ok there\n", "{tier:?} {named}");
        }
        for way in ["send", "send-message", "send-connected"] {
            project.works(&plan, &[way, &to_packets]);
            assert_eq!(packets.recv(&mut [0; 8]).unwrap(), 1);
            project.refused(&plan, &[way, FAR], &[ENETUNREACH]);
        }
        project.refused(&plan, &["connect", "192.0.2.1:80"], &[ENETUNREACH]);
        // Name servers query other servers.
        project.refused(&plan, &["send", "127.0.0.53:53"], &[ENETUNREACH]);
        if let Some(own) = external_address() {
            project.refused(&plan, &["send", &own.to_string()], &[ENETUNREACH]);
        }
        project.works(&plan, &["listen", "127.0.0.1:0"]);
        project.refused(&plan, &["listen", "0.0.0.0:0"], &[EACCES]);
    }
}

#[test]
fn command_reaches_its_own_servers() {
    for tier in broker_tiers() {
        let project = TestProject::new();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let plan = plan(&project, tier, Network::External);
        let script = format!(
            "confine serve {free} $TMPDIR/ready & while ! [ -e $TMPDIR/ready ]; do :; done
             confine connect {free}; kill %1 2>/dev/null; true"
        );
        let (_, output) = project.shell(&plan, &script);
        assert!(output.contains("ok hello"), "{tier:?}: {output}");
    }
}

#[test]
fn background_process_keeps_its_network_broker() {
    if !broker_tiers().contains(&Tier::Namespaces) {
        return;
    }
    let Some(session_namespaces) = session_namespaces() else { return };
    let project = TestProject::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    for (network, expected) in [(Network::External, "refused 111"), (Network::Loopback, "ok there")]
    {
        let plan = Plan {
            session_namespaces: Some(session_namespaces.pid()),
            ..plan(&project, Tier::Namespaces, network)
        };
        let left = format!(
            "(while ! [ -e /tmp/go ]; do :; done; confine connect {address} > /tmp/said.new;
              mv /tmp/said.new /tmp/said) < /dev/null > /dev/null 2>&1 &"
        );
        assert_eq!(project.shell(&plan, &left).0, 0);
        if network == Network::Loopback {
            let server = server.try_clone().unwrap();
            std::thread::spawn(move || server.accept().unwrap().0.write_all(b"there").unwrap());
        }
        let ask = "touch /tmp/go; while ! [ -e /tmp/said ]; do :; done; cat /tmp/said; rm /tmp/*";
        let (_, output) = project.shell(&plan, ask);
        assert!(output.starts_with(expected), "{network:?}: {output}");
    }
}

#[test]
fn unix_sockets_work_as_without_a_broker() {
    for tier in broker_tiers() {
        let project = TestProject::new();
        let (granted, other) = (project.home.join("agent.sock"), project.work.join("other.sock"));
        let _servers = [&granted, &other].map(|path| UnixListener::bind(path).unwrap());
        let mut plan = plan(&project, tier, Network::External);
        plan.sockets.push(granted.clone());
        project.works(&plan, &["unix", text(&granted)]);
        // Relative to the working directory of the command.
        project.works(&plan, &["unix", "../agent.sock"]);
        project.refused(&plan, &["unix", "missing.sock"], &[crate::test_project::ENOENT]);
        plan.sockets.clear();
        let output = project.output_in_sandbox(&plan, &["unix", text(&granted)]);
        if tier == Tier::Landlock || !project.home.starts_with("/tmp") {
            assert!(output.starts_with("refused"), "{tier:?}: {output}");
        }
    }
}
