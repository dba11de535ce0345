//! Finds the strings of a parsed file that a user can see.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Lit, LitStr, Meta, Token};

use super::{Message, MessageKind};

/// Functions, methods, and macros whose text arguments are compared, searched for, or run.
const FOR_PROGRAMS: &[&str] = &[
    "all_consuming",
    "arg",
    "args",
    "assert",
    "assert_eq",
    "assert_ne",
    "concat",
    "contains",
    "debug",
    "debug_assert",
    "ends_with",
    "env",
    "error_span",
    "execute",
    "execute_batch",
    "expect",
    "find",
    "header",
    "include_bytes",
    "include_str",
    "info_span",
    "is_match",
    "matches",
    "matches_str",
    "prepare",
    "prepare_cached",
    "query_row",
    "regex",
    "replace",
    "replacen",
    "rfind",
    "rsplit",
    "rsplit_once",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "trace",
    "trim_end_matches",
    "trim_start_matches",
    "var",
    "var_os",
];

/// Derived traits whose types are described by their documentation in `--help`.
const HELP_TRAITS: &[&str] = &["Parser", "Args", "Subcommand", "ValueEnum"];

/// Options of clap's attributes that are shown.
const HELP_OPTIONS: &[&str] = &[
    "about",
    "after_help",
    "after_long_help",
    "before_help",
    "help",
    "help_heading",
    "help_template",
    "long_about",
    "long_help",
    "next_help_heading",
    "subcommand_help_heading",
];

/// Collects messages while it walks a file.
#[derive(Default)]
pub(super) struct MessageCollector {
    messages: Vec<Message>,
    /// Whether documentation of fields and variants is help text.
    in_help: bool,
}

impl MessageCollector {
    /// Returns the messages of a file, in any order.
    pub(super) fn collect(mut self, file: &syn::File) -> Vec<Message> {
        self.visit_file(file);
        self.messages
    }

    fn push(&mut self, text: &LitStr, kind: MessageKind) {
        let line = text.span().start().line;
        self.messages.push(Message { line, kind, text: text.value().trim().to_owned() });
    }

    fn add_text(&mut self, text: &LitStr) {
        if is_prose(&text.value()) {
            self.push(text, MessageKind::Text);
        }
    }

    /// Adds the help text and the error messages of attributes.
    fn add_attribute_texts(&mut self, attributes: &[Attribute], is_help: bool) {
        for attribute in attributes {
            let path = attribute.path();
            match &attribute.meta {
                Meta::NameValue(meta) if path.is_ident("doc") && is_help => {
                    if let Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) = &meta.value
                        && !text.value().trim().is_empty()
                    {
                        self.push(text, MessageKind::Help);
                    }
                }
                Meta::List(list) if path.is_ident("error") => {
                    for text in literals(&list.tokens).into_iter().take(1) {
                        self.push(&text, MessageKind::Error);
                    }
                }
                Meta::List(list)
                    if ["arg", "command", "value"].iter().any(|it| path.is_ident(it)) =>
                {
                    let tokens: Vec<TokenTree> = list.tokens.clone().into_iter().collect();
                    for window in tokens.windows(3) {
                        let [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(text)] =
                            window
                        else {
                            continue;
                        };
                        let is_shown = HELP_OPTIONS.iter().any(|option| name == option);
                        if let (true, Some(text)) = (is_shown, string(text)) {
                            self.push(&text, MessageKind::Help);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the strings of a macro's tokens.
    fn add_token_strings(&mut self, tokens: &TokenStream) {
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(expressions) = list.parse2(tokens.clone()) {
            expressions.iter().for_each(|expression| self.visit_expr(expression));
            return;
        }
        // Not a list of expressions, for example JSON.
        let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let next = tokens.get(index + 1);
            let is_key =
                matches!(next, Some(TokenTree::Punct(it)) if matches!(it.as_char(), ':' | '='));
            let called = index.checked_sub(1).and_then(|before| tokens.get(before));
            match token {
                TokenTree::Literal(literal) if !is_key => {
                    if let Some(text) = string(literal) {
                        self.add_text(&text);
                    }
                }
                TokenTree::Group(group) => {
                    let is_call = group.delimiter() == Delimiter::Parenthesis
                        && matches!(called, Some(TokenTree::Ident(name)) if is_for_programs(&name.to_string()));
                    if !is_call {
                        self.add_token_strings(&group.stream());
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for MessageCollector {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if is_test(item_attributes(item)) {
            return;
        }
        let before = self.in_help;
        self.in_help = derives_help(item_attributes(item));
        self.add_attribute_texts(item_attributes(item), self.in_help);
        visit::visit_item(self, item);
        self.in_help = before;
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        self.add_attribute_texts(&field.attrs, self.in_help);
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'a syn::Variant) {
        self.add_attribute_texts(&variant.attrs, self.in_help);
        visit::visit_variant(self, variant);
    }

    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_pat(&mut self, _: &'a syn::Pat) {}

    fn visit_lit_str(&mut self, text: &'a LitStr) {
        self.add_text(text);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let compares = matches!(binary.op, syn::BinOp::Eq(_) | syn::BinOp::Ne(_));
        for side in [&binary.left, &binary.right] {
            if !(compares && matches!(**side, Expr::Lit(_))) {
                self.visit_expr(side);
            }
        }
    }

    fn visit_expr_index(&mut self, index: &'a syn::ExprIndex) {
        self.visit_expr(&index.expr);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.visit_expr(&call.receiver);
        let skips = is_for_programs(&call.method.to_string());
        for argument in &call.args {
            if !(skips && is_literal(argument)) {
                self.visit_expr(argument);
            }
        }
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        let name = match &*call.func {
            Expr::Path(path) => path.path.segments.last().map(|it| it.ident.to_string()),
            _ => None,
        };
        let skips = name.is_some_and(|name| is_for_programs(&name));
        for argument in &call.args {
            if !(skips && is_literal(argument)) {
                self.visit_expr(argument);
            }
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let is_log = call.path.segments.first().is_some_and(|it| it.ident == "tracing");
        let name = call.path.segments.last().map(|it| it.ident.to_string());
        if !is_log && !name.is_some_and(|name| is_for_programs(&name)) {
            self.add_token_strings(&call.tokens);
        }
    }
}

/// Whether a string is a sentence, a phrase, or a label.
fn is_prose(text: &str) -> bool {
    let text = text.trim();
    let is_markup = text.starts_with('<') || text.contains("://") && !text.contains(' ');
    let words = text.split_whitespace().filter(|word| {
        let word = word.trim_matches(|char: char| !char.is_alphabetic());
        word.chars().count() > 1
            && word.chars().all(|char| char.is_alphabetic() || matches!(char, '\'' | '-'))
    });
    let is_label = || {
        let mut chars = text.chars();
        chars.next().is_some_and(char::is_uppercase)
            && chars.all(|char| char.is_lowercase())
            && text.chars().count() > 2
    };
    !is_markup && (words.count() > 1 || is_label())
}

fn is_for_programs(name: &str) -> bool {
    FOR_PROGRAMS.contains(&name)
}

fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Lit(_) => true,
        Expr::Reference(reference) => is_literal(&reference.expr),
        Expr::Array(array) => array.elems.iter().all(is_literal),
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = attribute.path().segments.last().is_some_and(|it| it.ident == "test");
        let is_for_tests = attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "test");
        is_test || is_for_tests
    })
}

fn derives_help(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        let mut names = list.tokens.clone().into_iter();
        attribute.path().is_ident("derive")
            && names.any(|token| HELP_TRAITS.iter().any(|name| token.to_string() == **name))
    })
}

fn item_attributes(item: &syn::Item) -> &[Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the string literals among tokens.
fn literals(tokens: &TokenStream) -> Vec<LitStr> {
    let tokens = tokens.clone().into_iter();
    let found = tokens.filter_map(|token| match token {
        TokenTree::Literal(literal) => string(&literal),
        _ => None,
    });
    found.collect()
}

fn string(literal: &proc_macro2::Literal) -> Option<LitStr> {
    match Lit::new(literal.clone()) {
        Lit::Str(text) => Some(text),
        _ => None,
    }
}
