//! What to check when the service rejects credentials.

/// What to check when the service rejects the credentials.
pub(crate) const CREDENTIALS: &str = "the API key (`GEMINI_API_KEY`, or `GOOGLE_API_KEY` for \
    Vertex AI) and its permissions";

/// What to check for a Google Cloud project.
pub(crate) const PROJECT_CREDENTIALS: &str = "the application default credentials (`gcloud auth \
    application-default login`), their role `roles/aiplatform.user` in the project, and \
    `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION`";
