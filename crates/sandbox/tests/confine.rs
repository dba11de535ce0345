//! The test program: the sandbox itself, and small commands to run in it that print the response of
//! the kernel.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = parallax_sandbox::main(std::env::args_os()) {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(output) => {
            let _ = writeln!(std::io::stdout(), "ok {output}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0);
            let _ = writeln!(std::io::stdout(), "refused {number} {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> std::io::Result<String> {
    match args {
        ["write", path] => std::fs::write(path, "x").map(|()| String::new()),
        ["read", path] => std::fs::read(path).map(|bytes| bytes.len().to_string()),
        ["list", path] => std::fs::read_dir(path).map(|entries| entries.count().to_string()),
        ["connect", address] => TcpStream::connect(*address).and_then(|mut stream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        }),
        ["send", address] => {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.send_to(b"x", *address).map(|_| String::new())
        }
        ["send-message", address] => {
            let address: std::net::SocketAddrV4 = address.parse().map_err(std::io::Error::other)?;
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            let data = [std::io::IoSlice::new(b"x")];
            let mut control = rustix::net::SendAncillaryBuffer::default();
            let flags = rustix::net::SendFlags::empty();
            let sent = rustix::net::sendmsg_addr(&socket, &address, &data, &mut control, flags)?;
            Ok(sent.to_string())
        }
        ["send-connected", address] => {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(*address)?;
            socket.send(b"x").map(|_| String::new())
        }
        ["knock", address] => {
            for _ in 0..100 {
                if TcpStream::connect(*address).is_ok() {
                    return Err(std::io::Error::other("a process is listening there"));
                }
            }
            Ok(String::new())
        }
        ["listen", address] => TcpListener::bind(*address).map(|_| String::new()),
        ["serve", address, ready] => {
            let listener = TcpListener::bind(*address)?;
            std::fs::write(ready, "x")?;
            let (mut stream, _) = listener.accept()?;
            stream.write_all(b"hello").map(|()| String::new())
        }
        ["serve-unix", path, ready] => {
            let _packets = std::os::unix::net::UnixDatagram::bind(format!("{path}.packets"))?;
            let listener = std::os::unix::net::UnixListener::bind(path)?;
            std::fs::write(ready, "x")?;
            loop {
                // The client may have disconnected.
                let _ = listener.accept()?.0.write_all(b"hello");
            }
        }
        ["send-unix", path] => {
            let socket = std::os::unix::net::UnixDatagram::unbound()?;
            socket.send_to(b"x", path).map(|_| String::new())
        }
        ["unix", path] => std::os::unix::net::UnixStream::connect(path).map(|_| String::new()),
        _ => Err(std::io::Error::other("no such command")),
    }
}
