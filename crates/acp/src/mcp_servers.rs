//! The MCP servers that a client passes to a session, as entries of the setting `mcpServers`.

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::rpc::{self, RpcError};

/// Returns the entries by name.
///
/// # Errors
/// Returns an error if a server has no name or no usable transport.
pub(crate) fn read(params: &Object) -> Result<Object, RpcError> {
    let mut servers = Object::new();
    for server in rpc::list(params, "mcpServers")? {
        let Value::Object(server) = server else {
            return Err(RpcError::invalid_params("each item of `mcpServers` must be an object"));
        };
        let name = rpc::text(server, "name")?;
        servers.insert(name.to_owned(), entry(server)?);
    }
    Ok(servers)
}

fn entry(server: &Object) -> Result<Value, RpcError> {
    match server.get("type").and_then(Value::as_str) {
        Some("http") => Ok(json!({"httpUrl": address(server)?,
            "headers": pairs(server, "headers")?})),
        Some("sse") => Ok(json!({"url": address(server)?, "type": "sse",
            "headers": pairs(server, "headers")?})),
        None | Some("stdio") => Ok(json!({"command": rpc::text(server, "command")?,
            "args": arguments(server)?, "env": variables(server)?})),
        Some(other) => {
            let message = format!("MCP servers of the type `{other}` are not supported");
            Err(RpcError::invalid_params(message))
        }
    }
}

fn address(server: &Object) -> Result<&str, RpcError> {
    let address = rpc::text(server, "url")?;
    let rest = ["https://", "http://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    match rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) {
        true => Ok(address),
        false => Err(RpcError::invalid_params(format!("`{address}` is not an HTTP URL"))),
    }
}

fn arguments(server: &Object) -> Result<&[Value], RpcError> {
    let arguments = rpc::list(server, "args")?;
    match arguments.iter().all(Value::is_string) {
        true => Ok(arguments),
        false => Err(RpcError::invalid_params("each item of `args` must be a string")),
    }
}

fn variables(server: &Object) -> Result<Object, RpcError> {
    let variables = pairs(server, "env")?;
    match variables.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        Some(name) => {
            let message = format!("`{name}` is not a name of an environment variable");
            Err(RpcError::invalid_params(message))
        }
        None => Ok(variables),
    }
}

/// Converts a list of `{name, value}` to an object.
fn pairs(server: &Object, name: &str) -> Result<Object, RpcError> {
    let pair = |pair: &Value| {
        let Value::Object(pair) = pair else {
            return Err(RpcError::invalid_params(format!(
                "each item of `{name}` must be an object"
            )));
        };
        Ok((rpc::text(pair, "name")?.to_owned(), json!(rpc::text(pair, "value")?)))
    };
    rpc::list(server, name)?.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_servers_are_converted_to_settings() {
        let params = json!({"mcpServers": [
            {"name": "a", "command": "npx", "args": ["-y"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "b", "url": "https://x", "headers": []}]});
        let servers = read(params.as_object().expect("an object")).expect("servers");
        assert_eq!(servers["a"], json!({"command": "npx", "args": ["-y"], "env": {"K": "v"}}));
        assert_eq!(servers["b"], json!({"httpUrl": "https://x", "headers": {}}));
        for invalid in [
            json!({"command": "npx"}),
            json!({"name": "a", "command": "npx", "args": [1]}),
            json!({"name": "a", "command": "npx", "env": [{"name": "A=B", "value": "v"}]}),
            json!({"type": "http", "name": "b", "url": "nowhere"}),
            json!({"type": "sse", "name": "b", "url": "http://"}),
        ] {
            let params = json!({"mcpServers": [invalid]});
            assert!(read(params.as_object().expect("an object")).is_err(), "{params}");
        }
    }
}
