//! Compares the effective settings with and without a project file: only a difference can loosen
//! security.

use parallax_protocol::Object;
use serde_json::Value;

use crate::expand::Expander;
use crate::layers::{Layer, ValueOrigin};
use crate::merge::{Origins, merge};
use crate::migrate::get_dotted;
use crate::outer_settings::OuterSettings;
use crate::setting_table::{default_of, settings_table};

/// Merges the layers outside of the project, with the values of a project file in their position,
/// and expands the user's variables.
pub(super) fn merge_effective_settings(outer: &OuterSettings, project: Option<&Object>) -> Object {
    let (mut all, mut origins) = (Object::new(), Origins::new());
    let mut expander = Expander::new(&outer.environment);
    let mut add = |layer: Layer, values: &Object| {
        let origin = ValueOrigin { layer, file: Default::default() };
        let mut values = values.clone();
        values.values_mut().for_each(|value| expander.expand_value(value));
        merge(&mut all, values, &origin, &mut origins);
    };
    let (above, below): (Vec<_>, Vec<_>) =
        outer.layers.iter().partition(|file| file.layer > Layer::Workspace);
    below.iter().for_each(|file| add(file.layer, &file.values));
    if let Some(values) = project {
        add(Layer::Workspace, values);
    }
    above.iter().for_each(|file| add(file.layer, &file.values));
    all
}

/// The settings with and without the values of a project file.
pub(super) struct SettingsDifference {
    without_project: Object,
    with_project: Object,
}

impl SettingsDifference {
    pub(super) fn new(outer: &OuterSettings, project: &Object) -> Self {
        Self {
            without_project: merge_effective_settings(outer, None),
            with_project: merge_effective_settings(outer, Some(project)),
        }
    }

    /// Returns the settings without the project file.
    pub(super) fn settings_without_project(&self) -> &Object {
        &self.without_project
    }

    /// Whether the project file changes the effective value of the setting.
    pub(super) fn is_in(&self, key: &str) -> bool {
        value_of(&self.with_project, key) != value_of(&self.without_project, key)
    }

    /// Whether the setting names the authentication method that is used without the project file.
    pub(super) fn uses_auth_method(&self, outer: &OuterSettings, key: &str) -> bool {
        let text = |values: &Object, key: &str| {
            let text = get_dotted(values, key).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let enforced = "security.auth.enforcedType";
        let users = text(&self.without_project, "security.auth.selectedType")
            .unwrap_or_else(|| outer.auth_method.clone());
        text(&self.with_project, key).as_ref() == Some(&users)
            && text(&self.without_project, enforced).is_none_or(|enforced| enforced == users)
    }
}

/// Returns the effective value of a setting, including its default.
fn value_of(values: &Object, key: &str) -> Option<Value> {
    let value = get_dotted(values, key).filter(|value| !value.is_null());
    let Some(value) = value else { return default_of(key) };
    let known = settings_table().find(|known| known.name == key);
    known.and_then(|known| known.kind.accept(value)).or_else(|| Some(value.clone()))
}
