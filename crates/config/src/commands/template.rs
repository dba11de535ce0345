//! Parses command templates. A template is parsed once, so text from files and shell commands is
//! never parsed as a template.

use super::CommandFormat;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSegment {
    /// Text with argument placeholders.
    Text(Vec<TextPart>),
    /// `@{path}`.
    File(Vec<TextPart>),
    /// `!{command}`.
    Shell(Vec<TextPart>),
    /// `/{name arguments}`.
    Command(Vec<TextPart>),
}

/// Text or an argument placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Literal text.
    Text(String),
    /// All arguments as typed.
    All,
    /// A single argument, counted from 1.
    One(usize),
}

/// A block without its closing brace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclosedBlock {
    /// The position in characters, from 0.
    pub index: usize,
    /// The opening characters.
    pub opening: &'static str,
}

impl std::fmt::Display for UnclosedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { index, opening } = self;
        write!(
            f,
            "unclosed injection at index {index} (`{opening}`): the braces in it must be balanced"
        )
    }
}

/// Parses a template.
///
/// # Errors
/// Returns an error if a block is not closed.
pub fn parse(template: &str, form: CommandFormat) -> Result<Vec<TemplateSegment>, UnclosedBlock> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(char) = rest.chars().next() {
        let before = template.get(..template.len() - rest.len()).unwrap_or("");
        let opens = ["!{", "@{"].into_iter().find(|opening| rest.starts_with(opening));
        let Some(opening) = opens.or_else(|| calls(before, rest).then_some("/{")) else {
            text.push(char);
            rest = rest.get(char.len_utf8()..).unwrap_or("");
            continue;
        };
        let inside = rest.get(opening.len()..).unwrap_or("");
        let Some(end) = closing_brace(inside) else {
            let index = before.chars().count();
            return Err(UnclosedBlock { index, opening });
        };
        if !text.is_empty() {
            pieces.push(TemplateSegment::Text(text_parts(&std::mem::take(&mut text), form, false)));
        }
        let block = inside.get(..end).unwrap_or("").trim();
        pieces.push(match opening {
            "!{" => TemplateSegment::Shell(text_parts(block, form, true)),
            "/{" => TemplateSegment::Command(text_parts(block, form, false)),
            _ => TemplateSegment::File(text_parts(block, form, false)),
        });
        rest = inside.get(end + 1..).unwrap_or("");
    }
    if !text.is_empty() {
        pieces.push(TemplateSegment::Text(text_parts(&text, form, false)));
    }
    Ok(pieces)
}

/// Returns the shell commands of a template with unfilled placeholders. For an invalid template,
/// returns the whole text.
pub fn shell_blocks(template: &str, form: CommandFormat) -> Vec<String> {
    let Ok(pieces) = parse(template, form) else { return vec![template.trim().to_owned()] };
    let to_text = |bit: &TextPart| match bit {
        TextPart::Text(text) => text.clone(),
        TextPart::All => "{{args}}".to_owned(),
        TextPart::One(number) => format!("${number}"),
    };
    let shell = pieces.iter().filter_map(|piece| match piece {
        TemplateSegment::Shell(bits) => Some(bits.iter().map(to_text).collect()),
        _ => None,
    });
    shell.filter(|command: &String| !command.is_empty()).collect()
}

/// Returns whether the template has argument placeholders.
pub fn takes_arguments(pieces: &[TemplateSegment]) -> bool {
    pieces.iter().any(|piece| {
        let (TemplateSegment::Text(bits)
        | TemplateSegment::File(bits)
        | TemplateSegment::Shell(bits)
        | TemplateSegment::Command(bits)) = piece;
        bits.iter().any(|bit| !matches!(bit, TextPart::Text(_)))
    })
}

/// Returns whether a call of another command begins here. A URL path such as `/users/{id}` has
/// similar braces, so a call must follow whitespace or an opening quote or parenthesis, and must be
/// closed.
fn calls(before: &str, rest: &str) -> bool {
    let apart = before.chars().next_back();
    let apart = apart.is_none_or(|char| char.is_whitespace() || "(\"'`".contains(char));
    let Some(inside) = rest.strip_prefix("/{").filter(|_| apart) else { return false };
    let names = inside.trim_start().chars().next();
    names.is_some_and(|char| char.is_alphanumeric() || char == '_')
        && closing_brace(inside).is_some()
}

/// Returns the position of the brace that closes a block.
fn closing_brace(inside: &str) -> Option<usize> {
    let mut depth = 1u32;
    for (index, byte) in inside.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

/// Finds argument placeholders: `{{args}}`, and in Markdown also `$ARGUMENTS` and `$1` to `$9`.
/// Within single quotes of a shell command, `$1` is left to the quoted program (such as awk), as in
/// a shell.
fn text_parts(text: &str, form: CommandFormat, shell: bool) -> Vec<TextPart> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    let mut quoted = false;
    let mut keep = |plain: &mut String, bit: TextPart| {
        if !plain.is_empty() {
            found.push(TextPart::Text(std::mem::take(plain)));
        }
        found.push(bit);
    };
    while let Some(char) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("{{args}}") {
            keep(&mut plain, TextPart::All);
            rest = after;
            continue;
        }
        if form == CommandFormat::Markdown && char == '$' {
            if let Some(after) = rest.strip_prefix("$ARGUMENTS") {
                keep(&mut plain, TextPart::All);
                rest = after;
                continue;
            }
            if !(shell && quoted)
                && let Some((number, after)) = parse_positional(rest)
            {
                keep(&mut plain, TextPart::One(number));
                rest = after;
                continue;
            }
        }
        quoted ^= char == '\'';
        plain.push(char);
        rest = rest.get(char.len_utf8()..).unwrap_or("");
    }
    if !plain.is_empty() {
        found.push(TextPart::Text(plain));
    }
    found
}

/// Parses `$1`, but not `$10` or `$1a`, which are prices and names.
fn parse_positional(text: &str) -> Option<(usize, &str)> {
    let rest = text.strip_prefix('$')?;
    let digit = rest.chars().next()?.to_digit(10).filter(|digit| *digit > 0)?;
    let after = rest.get(1..)?;
    let goes_on = after.chars().next().is_some_and(|next| {
        next.is_alphanumeric()
            || next == '_'
            || (matches!(next, '.' | ',')
                && after.chars().nth(1).is_some_and(|digit| digit.is_ascii_digit()))
    });
    if goes_on { None } else { Some((usize::try_from(digit).ok()?, after)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TextPart {
        TextPart::Text(text.to_owned())
    }

    #[test]
    fn template_blocks_are_found_with_balanced_braces() {
        let pieces = parse("a @{ x/{y}.md } b !{ awk '{print $1}' {{args}} }", CommandFormat::Toml);
        assert_eq!(
            pieces.expect("parsed"),
            [
                TemplateSegment::Text(vec![text("a ")]),
                TemplateSegment::File(vec![text("x/{y}.md")]),
                TemplateSegment::Text(vec![text(" b ")]),
                TemplateSegment::Shell(vec![text("awk '{print $1}' "), TextPart::All]),
            ]
        );
        let error = parse("ü !{ echo { }", CommandFormat::Toml).expect_err("open");
        assert!(error.to_string().contains("at index 2"), "{error}");
    }

    #[test]
    fn command_calls_are_separate_pieces() {
        let parsed = |template| parse(template, CommandFormat::Toml).expect("parsed");
        assert_eq!(
            parsed("/{ git:fix {{args}} }, GET /users/{id} /{} /{open"),
            [
                TemplateSegment::Command(vec![text("git:fix "), TextPart::All]),
                TemplateSegment::Text(vec![text(", GET /users/{id} /{} /{open")]),
            ]
        );
    }

    #[test]
    fn markdown_template_reports_positions() {
        let pieces = parse("$1 costs $100 or $2.50, $ARGUMENTS!", CommandFormat::Markdown);
        assert_eq!(
            pieces.expect("parsed"),
            [TemplateSegment::Text(vec![
                TextPart::One(1),
                text(" costs $100 or $2.50, "),
                TextPart::All,
                text("!")
            ])]
        );
        let shell = parse("!{awk '{print $1}' $1}", CommandFormat::Markdown).expect("parsed");
        assert_eq!(
            shell,
            [TemplateSegment::Shell(vec![text("awk '{print $1}' "), TextPart::One(1)])]
        );
        let toml = parse("$1", CommandFormat::Toml).expect("parsed");
        assert!(!takes_arguments(&toml));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_template_does_not_panic(template in "[!@/{}a$19'ü\\\\ ]{0,80}|(\\{\\{args\\}\\}|!\\{|@\\{|\\}){0,20}") {
            for form in [CommandFormat::Toml, CommandFormat::Markdown] {
                let _ = parse(&template, form);
            }
        }
    }
}
