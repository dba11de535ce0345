//! Maps scopes of grammars to roles.

use syntect::parsing::Scope;

use super::Role;

/// Scope prefixes and their roles; the first match applies. Unlisted scopes inherit the role of the
/// scope around them.
const TABLE: &[(&str, Role)] = &[
    ("comment", Role::Comment),
    ("constant.numeric", Role::Number),
    ("constant.language", Role::Number),
    ("constant.character", Role::Number),
    ("constant.other", Role::Number),
    ("support.constant", Role::Number),
    ("string", Role::Text),
    ("markup.raw", Role::Text),
    ("keyword.operator.word", Role::Keyword),
    ("keyword.operator.logical.python", Role::Keyword),
    ("keyword.operator", Role::Plain),
    ("keyword", Role::Keyword),
    ("storage", Role::Keyword),
    ("variable.language", Role::Keyword),
    ("entity.name.tag", Role::Keyword),
    ("support.type.property-name", Role::Function),
    ("meta.mapping.key", Role::Function),
    ("entity.name.function", Role::Function),
    ("entity.name.macro", Role::Function),
    ("entity.other.attribute-name", Role::Function),
    ("support.function", Role::Function),
    ("support.macro", Role::Function),
    ("variable.function", Role::Function),
    ("variable.annotation", Role::Function),
    ("entity.name.type", Role::Type),
    ("entity.name.class", Role::Type),
    ("entity.name.struct", Role::Type),
    ("entity.name.enum", Role::Type),
    ("entity.name.trait", Role::Type),
    ("entity.name.interface", Role::Type),
    ("entity.name.impl", Role::Type),
    ("entity.name.namespace", Role::Type),
    ("entity.name.section", Role::Type),
    ("entity.other.inherited-class", Role::Type),
    ("support.type", Role::Type),
    ("support.class", Role::Type),
    ("markup.heading", Role::Type),
    ("markup.inserted", Role::Added),
    ("markup.deleted", Role::Removed),
    ("meta.diff.header", Role::Type),
    ("meta.diff.range", Role::Function),
    // Text in braces inside a string is code again.
    ("meta.interpolation", Role::Plain),
    ("source", Role::Plain),
];

/// The parsed table.
pub(super) struct ScopeRoles {
    table: Vec<(Scope, Role)>,
}

impl ScopeRoles {
    pub(super) fn new() -> Self {
        let entry = |(name, role): &(&str, Role)| Scope::new(name).ok().map(|scope| (scope, *role));
        Self { table: TABLE.iter().filter_map(entry).collect() }
    }

    /// Returns the role of text in these scopes, outermost first: the innermost scope with a role
    /// decides.
    pub(super) fn role(&self, scopes: &[Scope]) -> Role {
        let find = |scope: &Scope| {
            self.table.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, role)| *role)
        };
        scopes.iter().rev().find_map(find).unwrap_or(Role::Plain)
    }
}
