//! Signing in to an MCP server in a terminal, with or without a browser.

use std::io::{self, Write as _};

use parallax_headless::one_line;
use parallax_mcp::SignInUi;
use parallax_protocol::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// The terminal of a sign-in.
pub(crate) struct SignInTerminal {
    pub(crate) no_browser: bool,
}

impl SignInUi for SignInTerminal {
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

    fn wait_for_pasted_url(&self) -> BoxFuture<'static, Option<String>> {
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
