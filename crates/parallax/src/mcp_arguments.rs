//! The command line of `parallax mcp`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use parallax_config::mcp::McpScope;

/// `parallax mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    pub(crate) action: McpAction,

    /// Write a log to `~/.parallax/logs`
    #[arg(short = 'd', long, global = true)]
    pub(crate) debug: bool,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum McpAction {
    /// Add an MCP server to the user or project settings
    // `AddArguments` parses these words; options that it does not know belong to the
    // server.
    #[command(disable_help_flag = true)]
    Add {
        /// See `parallax mcp add --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Add an MCP server from JSON
    AddJson {
        /// Name of the server
        name: String,
        /// Server object, as under `mcpServers`
        json: String,
        /// Settings file to change
        #[arg(short, long, value_parser = scopes(), default_value = "project")]
        scope: McpScope,
    },
    /// Remove an MCP server from the settings
    Remove {
        /// Name of the server
        name: String,
        /// Settings file to change
        #[arg(short, long, value_parser = scopes(), default_value = "project")]
        scope: McpScope,
    },
    /// Show the configuration of an MCP server
    Get {
        /// Name of the server
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the MCP servers and try to connect to each
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable an MCP server
    Enable {
        /// Name of the server
        name: String,
        /// Only for a session (works inside a session)
        #[arg(long)]
        session: bool,
    },
    /// Disable an MCP server
    Disable {
        /// Name of the server
        name: String,
        /// Only for a session (works inside a session)
        #[arg(long)]
        session: bool,
    },
    /// Sign in to an MCP server, or sign out
    Auth {
        /// Name of the server
        name: String,
        /// Sign out: delete the saved tokens
        #[arg(long)]
        forget: bool,
        /// Print the URL and read the redirect URL from stdin instead of opening a browser
        #[arg(long)]
        no_browser: bool,
    },
}

/// `parallax mcp add`, with its words in order.
#[derive(Debug, Parser)]
#[command(
    name = "parallax mcp add",
    about = "Add an MCP server to the user or project settings",
    override_usage = "parallax mcp add [OPTIONS] NAME COMMAND_OR_URL [ARGS]...",
    after_help = "Options that are not listed here, and everything after `--`, are arguments of \
                  the server",
    max_term_width = 100
)]
pub(crate) struct AddArguments {
    /// Name of the server
    pub(crate) name: String,
    /// Program to run, or URL of the server
    pub(crate) command_or_url: String,
    /// Arguments of the program
    pub(crate) args: Vec<String>,
    /// Settings file to change
    #[arg(short, long, value_parser = scopes(), default_value = "project")]
    pub(crate) scope: McpScope,
    /// Transport of the connection
    #[arg(short, long, visible_alias = "type", value_name = "TRANSPORT", default_value = "stdio",
        value_parser = PossibleValuesParser::new(["stdio", "sse", "http"]))]
    pub(crate) transport: String,
    /// Environment variable of the program, `NAME=value`; can be repeated
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// HTTP header for each request, `Name: value`; can be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Timeout of a request in milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,
    /// Run its tools without approval
    #[arg(long)]
    pub(crate) trust: bool,
    /// Description of the server
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Tools to offer, and no others; comma-separated or repeated
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) include_tools: Vec<String>,
    /// Tools not to offer; comma-separated or repeated
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) exclude_tools: Vec<String>,
    /// Write a log to `~/.parallax/logs`
    #[arg(short, long)]
    pub(crate) debug: bool,
    /// Working directory of the program
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
}

const VALUED: [&str; 14] = [
    "-s",
    "--scope",
    "-t",
    "--transport",
    "--type",
    "-e",
    "--env",
    "-H",
    "--header",
    "--timeout",
    "--description",
    "--include-tools",
    "--exclude-tools",
    "--cwd",
];

impl AddArguments {
    /// Parses the words after `add`: known options in any position, the rest in order.
    ///
    /// # Errors
    /// The error of clap.
    pub(crate) fn read(words: &[String]) -> Result<Self, clap::Error> {
        let (mut options, mut rest) = (vec!["add".to_owned()], Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            match word.as_str() {
                "--" => {
                    rest.extend(words.by_ref().cloned());
                }
                "--trust" | "--trust=true" => options.push("--trust".to_owned()),
                "--trust=false" | "--no-trust" => options.retain(|option| option != "--trust"),
                "--help" | "-h" | "--debug" | "-d" if rest.len() < 2 => options.push(word.clone()),
                // A value may begin with a dash, so it is attached to its option.
                _ if VALUED.contains(&word.as_str()) => match words.next() {
                    Some(value) if word.starts_with("--") => {
                        options.push(format!("{word}={value}"));
                    }
                    Some(value) => options.push(format!("{word}{value}")),
                    None => options.push(word.clone()),
                },
                _ if name.starts_with("--") && VALUED.contains(&name) => options.push(word.clone()),
                // The form `-s=user`, too.
                _ if VALUED.contains(&name) => options.push(word.replacen('=', "", 1)),
                _ => rest.push(word.clone()),
            }
        }
        options.push("--".to_owned());
        Self::try_parse_from(options.into_iter().chain(rest))
    }
}

fn scopes() -> impl TypedValueParser<Value = McpScope> {
    PossibleValuesParser::new(["user", "project"]).map(|text| match text.as_str() {
        "user" => McpScope::User,
        _ => McpScope::Project,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> AddArguments {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        AddArguments::read(&words).expect("understood")
    }

    #[test]
    fn known_options_are_accepted_anywhere_and_others_belong_to_the_server() {
        let add = read(&["--include-tools", "a,b", "web", "https://x.example/", "-t", "http"]);
        assert_eq!((add.name.as_str(), add.command_or_url.as_str()), ("web", "https://x.example/"));
        assert_eq!(
            (add.include_tools, add.transport.as_str()),
            (vec!["a".into(), "b".into()], "http")
        );
        let add = read(&["s", "npx", "-y", "pkg", "--port", "3", "-e", "K=v=w", "-s", "user"]);
        assert_eq!(add.args, ["-y", "pkg", "--port", "3"]);
        assert_eq!((add.env, add.scope), (vec!["K=v=w".to_owned()], McpScope::User));
        let add = read(&["--trust=true", "-s=user", "-e=K=v", "a", "cmd", "-p=1"]);
        assert_eq!((add.name.as_str(), add.trust, add.scope), ("a", true, McpScope::User));
        assert_eq!((add.env, add.args), (vec!["K=v".to_owned()], vec!["-p=1".to_owned()]));
        assert!(!read(&["--trust", "--trust=false", "a", "cmd"]).trust);
        let add = read(&["-e", "-K=-v", "s", "cmd", "--trust", "--", "-s", "user", "--help"]);
        assert_eq!((add.env, add.trust), (vec!["-K=-v".to_owned()], true));
        assert_eq!(add.args, ["-s", "user", "--help"]);
        assert!(read(&["-d", "s", "cmd"]).debug);
        assert_eq!(read(&["s", "cmd", "-d"]).args, ["-d"]);
    }
}
