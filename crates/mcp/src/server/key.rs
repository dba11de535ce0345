//! The cache key of a server.

use parallax_config::mcp::{Endpoint, McpServer};

use crate::cache;
use crate::connect::ServerEnvironment;

/// Returns the hash of everything that determines what a server offers, including environment
/// variables.
pub(super) fn key(config: &McpServer, environment: &ServerEnvironment) -> String {
    let directory = environment.directory.to_string_lossy();
    let mut pieces: Vec<&str> = vec![&config.name, config.endpoint.kind()];
    match &config.endpoint {
        Endpoint::Stdio { command, args, env, cwd } => {
            pieces.push(command);
            pieces.extend(args.iter().map(String::as_str));
            pieces.push("env");
            pieces.extend(env.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
            pieces.push(&directory);
            pieces.extend(cwd.as_ref().and_then(|cwd| cwd.to_str()));
            // A server in the sandbox may offer something else, or fail to start.
            if config.is_confined(environment.sandboxed) {
                pieces.push("sandbox");
                pieces.extend(config.grants.network.then_some("network"));
                let paths = config.grants.read.iter().chain(&config.grants.write);
                pieces.extend(paths.map(String::as_str));
            }
        }
        Endpoint::Http { url, headers }
        | Endpoint::Sse { url, headers }
        | Endpoint::HttpThenSse { url, headers } => {
            pieces.push(url);
            pieces.extend(headers.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
        }
    }
    cache::key(pieces)
}
