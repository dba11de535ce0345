//! Finds the environment variables that configuration expands into secrets: headers, keys,
//! credentials in URLs, and arguments and variables of programs that are named like secrets.

use parallax_protocol::Object;
use parallax_protocol::secret::{SecretRecipient, SecretVariables};
use serde_json::Value;

use crate::expand::referenced_names;

/// Registers the variables of a settings file.
pub(crate) fn register(settings: &Object, secrets: &SecretVariables) {
    for (key, value) in settings {
        let recipient = match key.as_str() {
            "providers" | "tools" => SecretRecipient::Provider,
            _ => SecretRecipient::Service,
        };
        let scan = SecretScan { secrets, recipient };
        scan.register_field(key, value);
        if key == "providers" {
            scan.register_key_variables(value);
        }
    }
}

/// Registers the variables of `mcpServers` in any file.
pub(crate) fn register_servers(servers: &Value, secrets: &SecretVariables) {
    SecretScan { secrets, recipient: SecretRecipient::Service }.register_value(servers);
}

struct SecretScan<'a> {
    secrets: &'a SecretVariables,
    recipient: SecretRecipient,
}

impl SecretScan<'_> {
    fn register_field(&self, key: &str, value: &Value) {
        match (key, value) {
            ("headers" | "apiKeyCommand", _) => self.register_all(value),
            ("args", Value::Array(arguments)) => self.register_arguments(arguments),
            (_, Value::String(text)) if is_secret_name(key) => self.register_text_variables(text),
            _ => self.register_value(value),
        }
    }

    fn register_value(&self, value: &Value) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(key, field)| self.register_field(key, field))
            }
            Value::Array(items) => items.iter().for_each(|item| self.register_value(item)),
            Value::String(text) => self.register_url_variables(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Registers all variables below a value that is a secret as a whole.
    fn register_all(&self, value: &Value) {
        match value {
            Value::Object(fields) => fields.values().for_each(|field| self.register_all(field)),
            Value::Array(items) => items.iter().for_each(|item| self.register_all(item)),
            Value::String(text) => self.register_text_variables(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Registers the variables of arguments such as `--token $NAME` and `--token=$NAME`.
    fn register_arguments(&self, arguments: &[Value]) {
        let mut is_value_of_secret = false;
        for argument in arguments.iter().filter_map(Value::as_str) {
            let name = argument.split('=').next().unwrap_or_default();
            let is_secret_option = name.starts_with('-') && is_secret_name(name);
            match is_value_of_secret || is_secret_option || is_header(argument) {
                true => self.register_text_variables(argument),
                false => self.register_url_variables(argument),
            }
            is_value_of_secret = is_secret_option && !argument.contains('=');
        }
    }

    /// Registers the variables before the `@` and after the `?` of a URL.
    fn register_url_variables(&self, text: &str) {
        let Some((_, rest)) = text.split_once("://") else { return };
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at(authority_end);
        if let Some((user, _)) = authority.rsplit_once('@') {
            self.register_text_variables(user);
        }
        if let Some((_, query)) = after.split_once('?') {
            self.register_text_variables(query);
        }
    }

    fn register_text_variables(&self, text: &str) {
        for name in referenced_names(text) {
            self.secrets.insert(name, self.recipient);
        }
    }

    /// Registers `providers.<name>.apiKeyEnv`.
    fn register_key_variables(&self, providers: &Value) {
        let entries = providers.as_object().into_iter().flat_map(|entries| entries.values());
        for names in entries.filter_map(|entry| entry.get("apiKeyEnv")) {
            let names = match names {
                Value::Array(names) => names.as_slice(),
                name => std::slice::from_ref(name),
            };
            for name in names.iter().filter_map(Value::as_str) {
                self.secrets.insert(name, self.recipient);
            }
        }
    }
}

/// Whether an argument is a whole header, as in `mcp-remote --header "X-Auth:$NAME"`.
fn is_header(argument: &str) -> bool {
    argument.split_once(':').is_some_and(|(name, value)| {
        !value.starts_with("//") && value.contains('$') && is_secret_name(name)
    })
}

/// Whether a field, variable, header, or option with this name holds a secret. A number of tokens
/// and the address of a token endpoint are not secrets.
fn is_secret_name(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    const WORDS: [&str; 9] = [
        "secret",
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "authorization",
        "credential",
        "bearer",
        "cookie",
    ];
    const ENDINGS: [&str; 6] = ["token", "key", "pass", "pat", "auth", "dsn"];
    WORDS.iter().any(|word| name.contains(word)) || ENDINGS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn registered(settings: &Value) -> Vec<(String, SecretRecipient)> {
        let secrets = SecretVariables::default();
        register(settings.as_object().expect("an object"), &secrets);
        secrets.snapshot().into_iter().collect()
    }

    #[test]
    fn variables_in_secrets_are_registered_and_others_are_not() {
        use SecretRecipient::{Provider, Service};
        let table = [
            (json!({"providers": {"a": {"headers": {"X": "$V"}}}}), Some(Provider)),
            (json!({"providers": {"a": {"headers": {"X": "a ${V} b"}}}}), Some(Provider)),
            (json!({"providers": {"a": {"headers": {"X": "${V:-none}"}}}}), Some(Provider)),
            (json!({"providers": {"a": {"apiKeyEnv": "V"}}}), Some(Provider)),
            (json!({"providers": {"a": {"apiKeyEnv": ["V"]}}}), Some(Provider)),
            (json!({"providers": {"a": {"apiKeyCommand": "printf $V"}}}), Some(Provider)),
            (json!({"providers": {"a": {"baseUrl": "https://$V/v1"}}}), None),
            (json!({"tools": {"webSearch": {"headers": {"X": "$V"}}}}), Some(Provider)),
            (json!({"tools": {"webSearch": {"body": {"api_key": "$V"}}}}), Some(Provider)),
            (json!({"tools": {"webSearch": {"url": "https://s/?k=$V&q={query}"}}}), Some(Provider)),
            (json!({"tools": {"webSearch": {"url": "https://$V/?q={query}"}}}), None),
            (json!({"mcpServers": {"a": {"headers": {"X": "$V"}}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"env": {"GH_PAT": "$V"}}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"env": {"GOPATH": "$V"}}}}), None),
            (json!({"mcpServers": {"a": {"oauth": {"clientSecret": "$V"}}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"args": ["--token", "$V"]}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"args": ["--api-key=$V"]}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"args": ["Authorization:Bearer $V"]}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"args": ["--root", "$V"]}}}), None),
            (json!({"mcpServers": {"a": {"url": "https://u:$V@h/mcp"}}}), Some(Service)),
            (json!({"mcpServers": {"a": {"url": "https://$V/mcp"}}}), None),
            (json!({"proxy": "http://u:$V@h:1"}), Some(Service)),
            (json!({"context": {"fileName": "$V"}}), None),
        ];
        for (settings, expected) in table {
            let found = registered(&settings);
            assert_eq!(found.first().map(|(_, recipient)| *recipient), expected, "{settings}");
            assert!(found.iter().all(|(name, _)| name == "V"), "{settings}: {found:?}");
        }
    }
}
