"""Reports: figures, HTML, Markdown, JUnit, attestation."""
