//! `parallax mcp auth`: signs in to a server, with or without a browser.

use std::io::{self, Write as _};

use parallax_config::mcp::Gate;
use parallax_headless::{ExitCode, one_line};
use parallax_mcp::SignIn;
use parallax_protocol::BoxFuture;
use parallax_protocol::event::Failure;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::extending::refused;
use crate::mcp_command::{find, launch, say};

/// Signs in, or deletes stored credentials.
///
/// # Errors
/// Returns an error if the server is unknown or the sign-in fails.
pub(crate) async fn auth(name: &str, forget: bool, no_browser: bool) -> Result<ExitCode, Failure> {
    let launch = launch()?;
    let server = find(&launch, name)?;
    let name = one_line(&server.name);
    let files = launch.mcp_manager().token_files();
    if forget {
        let forgotten = files.forget(&server.name);
        let forgotten =
            forgotten.map_err(|error| refused(format!("Failed to delete the tokens: {error}")))?;
        return Ok(say(&match forgotten {
            true => format!("Signed out of \"{name}\".\n"),
            false => format!("Not signed in to \"{name}\".\n"),
        }));
    }
    if server.gate == Gate::Untrusted {
        return Err(refused("The folder is not trusted (see `parallax trust`)".to_owned()));
    }
    let port = launch.mcp_manager().oauth_port();
    let face = SignInTerminal { no_browser: no_browser || launch.mcp_manager().without_browser() };
    parallax_mcp::sign_in(&server, &files, port, &launch.client_options(), &face)
        .await
        .map_err(|why| refused(format!("Failed to sign in to `{name}`: {why}")))?;
    Ok(say(&format!("Signed in to \"{name}\".\n")))
}

struct SignInTerminal {
    no_browser: bool,
}

impl SignIn for SignInTerminal {
    fn show(&self, address: &str) {
        let how = match self.no_browser {
            true => "open this URL, then paste the URL that the browser is redirected to",
            false => "open this URL if no browser opens",
        };
        // A failed write to stderr cannot be reported.
        let _ = writeln!(io::stderr(), "To sign in, {how}:\n\n{}\n", one_line(address));
        if !self.no_browser {
            parallax_exec::program::open_address(address);
        }
    }

    fn pasted(&self) -> BoxFuture<'static, Option<String>> {
        if !self.no_browser {
            return Box::pin(std::future::pending());
        }
        Box::pin(async {
            let mut line = String::new();
            match BufReader::new(tokio::io::stdin()).read_line(&mut line).await {
                Ok(length) if length > 0 => Some(line.trim().to_owned()),
                // Without a pasted URL, the redirect of the browser may still arrive.
                _ => std::future::pending().await,
            }
        })
    }
}
