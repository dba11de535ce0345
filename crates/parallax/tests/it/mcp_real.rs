//! Public MCP servers, installed by `scripts/mcp-servers`. The test of a server that is not
//! installed is skipped with a notice.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp::{answer, declared, set};
use crate::support::{World, wait_until};

/// Returns a file in the directory of installed servers.
fn installed(file: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let file = target.join("mcp-servers").join(file);
    if file.exists() {
        return Some(file);
    }
    let notice = format!(
        "left out: `{}` is not there (scripts/mcp-servers)
",
        file.display()
    );
    // A failed write of the notice is harmless.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), notice.as_bytes());
    None
}

fn node(package: &str, file: &str) -> Option<String> {
    let file = format!("node_modules/@modelcontextprotocol/{package}/dist/{file}");
    installed(&file).map(|file| file.display().to_string())
}

/// Calls one tool of a server and returns the result.
fn output(world: &World, server: &Value) -> String {
    set(world, &json!({"mcpServers": {"real": server}, "mcp": {"firstWaitMs": 15_000}}));
    world.run_ok(&["-y", "-p", "go"]);
    let answer = answer(world, 1);
    assert!(answer["output"].is_string(), "{answer}");
    answer["output"].as_str().unwrap_or_default().to_owned()
}

fn script(tool: &str, args: &Value) -> String {
    json!([{"calls": [{"name": format!("mcp_real_{tool}"), "args": args}]}, {"text": "done"}])
        .to_string()
}

#[test]
fn everything_server_works_over_stdio() {
    let Some(file) = node("server-everything", "index.js") else { return };
    let world = World::new(&script("echo", &json!({"message": "hello"})));
    let output = output(&world, &json!({"command": "node", "args": [file]}));
    assert!(output.contains("Echo: hello"), "{output}");
    let names = declared(&world, 0);
    assert!(names.contains(&"read_mcp_resource".to_owned()) && names.len() > 15, "{names:?}");
}

#[test]
fn everything_server_works_over_streamable_http() {
    let Some(file) = node("server-everything", "index.js") else { return };
    let world = World::new(&script("echo", &json!({"message": "far"})));
    let mut command = world.home.command(Path::new("node"), "");
    let address = free_address();
    command.args([&file, "streamableHttp"]).env("PORT", address.port().to_string());
    let output = output_over_http(&world, command, address);
    assert!(output.contains("Echo: far"), "{output}");
}

/// Returns a free address on this machine.
fn free_address() -> SocketAddr {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    port.local_addr().expect("an address")
}

/// Starts a server that will listen on that address, and calls one of its tools.
fn output_over_http(world: &World, mut command: Command, address: SocketAddr) -> String {
    let mut child = command.spawn().expect("started");
    wait_until("the server", || std::net::TcpStream::connect(address).is_ok());
    let output = output(world, &json!({"url": format!("http://{address}/mcp"), "type": "http"}));
    let _ = child.kill();
    let _ = child.wait();
    output
}

#[test]
fn filesystem_server_works() {
    let Some(file) = node("server-filesystem", "index.js") else { return };
    let world = World::new(&script("read_text_file", &json!({"path": "a.txt"})));
    world.home.write("a.txt", "what stands here").expect("a file");
    let folder = world.home.project().display().to_string();
    let output = output(&world, &json!({"command": "node", "args": [file, folder]}));
    assert!(output.contains("what stands here"), "{output}");
}

#[test]
fn memory_server_works() {
    let Some(file) = node("server-memory", "index.js") else { return };
    let entity = json!({"name": "Ada", "entityType": "engineer", "observations": ["counts"]});
    let world = World::new(&script("create_entities", &json!({"entities": [entity]})));
    let memory = world.home.root().join("memory.jsonl").display().to_string();
    let server = json!({"command": "node", "args": [file], "env": {"MEMORY_FILE_PATH": memory}});
    let output = output(&world, &server);
    assert!(output.contains("Ada"), "{output}");
    assert!(std::fs::read_to_string(memory).expect("the memory").contains("counts"));
}

/// Returns the interpreter with the SDK, and a server written with it.
fn python() -> Option<(PathBuf, PathBuf)> {
    let python = installed("python/bin/python")?;
    installed("python/bin/mcp")?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/python_server.py");
    Some((python, here.canonicalize().expect("the server")))
}

#[test]
fn python_sdk_server_works_over_stdio() {
    let Some((python, file)) = python() else { return };
    let world = World::new(&script("add", &json!({"a": 20, "b": 22})));
    let output = output(&world, &json!({"command": python, "args": [file]}));
    assert!(output.contains("42"), "{output}");
}

#[test]
fn python_sdk_server_works_over_streamable_http() {
    let Some((python, file)) = python() else { return };
    let world = World::new(&script("add", &json!({"a": 20, "b": 22})));
    let address = free_address();
    let mut command = world.home.command(&python, "");
    command.arg(file).arg(address.port().to_string());
    let output = output_over_http(&world, command, address);
    assert!(output.contains("42"), "{output}");
}
