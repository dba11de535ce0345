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

    /// Write what happens into a log below `~/.parallax/logs`
    #[arg(short = 'd', long, global = true)]
    pub(crate) debug: bool,
}

#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum McpAction {
    /// Write a server into your settings or the project's
    // Read by `AddArguments`: what it does not know belongs to the server.
    #[command(disable_help_flag = true)]
    Add {
        /// See `parallax mcp add --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Write a server that is given as JSON
    AddJson {
        /// What it is called
        name: String,
        /// Its object, as it stands under `mcpServers`
        json: String,
        /// Whose settings
        #[arg(short, long, value_parser = scopes(), default_value = "project")]
        scope: McpScope,
    },
    /// Take a server out of the settings
    Remove {
        /// The server
        name: String,
        /// Whose settings
        #[arg(short, long, value_parser = scopes(), default_value = "project")]
        scope: McpScope,
    },
    /// Show a server as it is configured
    Get {
        /// The server
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the servers and try each
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch a server on again
    Enable {
        /// The server
        name: String,
        /// Only for a session (within one)
        #[arg(long)]
        session: bool,
    },
    /// Switch a server off
    Disable {
        /// The server
        name: String,
        /// Only for a session (within one)
        #[arg(long)]
        session: bool,
    },
    /// Sign in to a server, or forget the sign-in
    Auth {
        /// The server
        name: String,
        /// Forget the tokens instead
        #[arg(long)]
        forget: bool,
        /// Print the address and read the redirect from stdin; open no browser
        #[arg(long)]
        no_browser: bool,
    },
}

/// `parallax mcp add`, its words put in order.
#[derive(Debug, Parser)]
#[command(
    name = "parallax mcp add",
    about = "Write a server into your settings or the project's",
    override_usage = "parallax mcp add [OPTIONS] NAME COMMAND_OR_URL [ARGS]...",
    after_help = "Options that are not listed here belong to the server, and all words behind `--`",
    max_term_width = 100
)]
pub(crate) struct AddArguments {
    /// What it is called
    pub(crate) name: String,
    /// The program, or the address
    pub(crate) command_or_url: String,
    /// The arguments of the program
    pub(crate) args: Vec<String>,
    /// Whose settings
    #[arg(short, long, value_parser = scopes(), default_value = "project")]
    pub(crate) scope: McpScope,
    /// How it is reached
    #[arg(short, long, visible_alias = "type", value_name = "TRANSPORT", default_value = "stdio",
        value_parser = PossibleValuesParser::new(["stdio", "sse", "http"]))]
    pub(crate) transport: String,
    /// A variable for the program: `NAME=value`; repeated
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header for each request: `Name: value`; repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// How long a request may take, in milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,
    /// Its tools run without questions
    #[arg(long)]
    pub(crate) trust: bool,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// The only tools that count, comma-separated or repeated
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) include_tools: Vec<String>,
    /// Tools that do not count, comma-separated or repeated
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) exclude_tools: Vec<String>,
    /// Write what happens into a log below `~/.parallax/logs`
    #[arg(short, long)]
    pub(crate) debug: bool,
    /// Where the program runs
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
    /// Reads the words behind `add`: known options wherever they stand, the
    /// rest in order.
    ///
    /// # Errors
    /// What clap says.
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
                // A value may begin with a dash: it is bound to its option.
                _ if VALUED.contains(&word.as_str()) => match words.next() {
                    Some(value) if word.starts_with("--") => {
                        options.push(format!("{word}={value}"));
                    }
                    Some(value) => options.push(format!("{word}{value}")),
                    None => options.push(word.clone()),
                },
                _ if name.starts_with("--") && VALUED.contains(&name) => options.push(word.clone()),
                // `-s=user` too.
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
    fn options_stand_anywhere_and_others_are_the_servers() {
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
