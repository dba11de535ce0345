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
        Some("http") => Ok(json!({"httpUrl": rpc::text(server, "url")?,
            "headers": pairs(server, "headers")?})),
        Some("sse") => Ok(json!({"url": rpc::text(server, "url")?, "type": "sse",
            "headers": pairs(server, "headers")?})),
        None | Some("stdio") => Ok(json!({"command": rpc::text(server, "command")?,
            "args": rpc::list(server, "args")?, "env": pairs(server, "env")?})),
        Some(other) => {
            let message = format!("MCP servers of the type `{other}` are not supported");
            Err(RpcError::invalid_params(message))
        }
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
    fn servers_become_settings() {
        let params = json!({"mcpServers": [
            {"name": "a", "command": "npx", "args": ["-y"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "b", "url": "https://x", "headers": []}]});
        let servers = read(params.as_object().expect("an object")).expect("servers");
        assert_eq!(servers["a"], json!({"command": "npx", "args": ["-y"], "env": {"K": "v"}}));
        assert_eq!(servers["b"], json!({"httpUrl": "https://x", "headers": {}}));
        let invalid = json!({"mcpServers": [{"command": "npx"}]});
        assert!(read(invalid.as_object().expect("an object")).is_err());
    }
}
