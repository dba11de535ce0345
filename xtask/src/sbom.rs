//! The software bill of materials, as a CycloneDX 1.6 document.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::dependencies::{Dependencies, Dependency};
use crate::product;

/// Returns the document for the program on all targets: its file name and text.
///
/// # Errors
/// Returns an error if the time is beyond any calendar.
pub fn cyclonedx(dependencies: &Dependencies, time: u64) -> Result<(String, Vec<u8>)> {
    let purl = format!("pkg:cargo/{}@{}", product::NAME, product::VERSION);
    let mut graph = vec![json!({ "ref": purl, "dependsOn": references(&dependencies.direct) })];
    graph.extend(
        dependencies
            .all
            .iter()
            .map(|it| json!({ "ref": it.purl(), "dependsOn": references(&it.uses) })),
    );
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": product::timestamp(time)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": product::NAME,
                "version": product::VERSION,
                "description": product::SUMMARY,
                "licenses": [{ "license": { "id": product::LICENSE } }],
                "purl": purl,
            },
        },
        "components": dependencies.all.iter().map(component).collect::<Vec<_>>(),
        "dependencies": graph,
    });
    let text =
        serde_json::to_string_pretty(&document).context("Failed to write the bill of materials")?;
    Ok((format!("{}-{}.cdx.json", product::NAME, product::VERSION), (text + "\n").into_bytes()))
}

fn component(library: &Dependency) -> Value {
    let mut fields = Map::new();
    fields.insert("type".into(), "library".into());
    fields.insert("bom-ref".into(), library.purl().into());
    fields.insert("name".into(), library.name.clone().into());
    fields.insert("version".into(), library.version.clone().into());
    if let Some(checksum) = &library.checksum {
        fields.insert("hashes".into(), json!([{ "alg": "SHA-256", "content": checksum }]));
    }
    if let Some(license) = &library.license {
        fields.insert("licenses".into(), json!([{ "expression": license }]));
    }
    fields.insert("purl".into(), library.purl().into());
    if let Some(repository) = &library.repository {
        fields.insert("externalReferences".into(), json!([{ "type": "vcs", "url": repository }]));
    }
    Value::Object(fields)
}

fn references(used: &[(String, String)]) -> Vec<String> {
    used.iter().map(|(name, version)| format!("pkg:cargo/{name}@{version}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_a_component_with_its_license_and_its_uses() {
        let library = |name: &str, uses: &[&str]| Dependency {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some("MIT".to_owned()),
            repository: None,
            checksum: None,
            source: std::path::PathBuf::new(),
            uses: uses.iter().map(|name| ((*name).to_owned(), "1.0.0".to_owned())).collect(),
        };
        let direct = vec![("one".to_owned(), "1.0.0".to_owned())];
        let dependencies = Dependencies {
            all: vec![library("one", &["two"]), library("two", &[])],
            direct,
            repository: None,
        };
        let (_, bytes) = cyclonedx(&dependencies, 0).expect("a document");
        let document: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT");
        assert_eq!(document["dependencies"][0]["dependsOn"], json!(["pkg:cargo/one@1.0.0"]));
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/two@1.0.0"]));
    }
}
