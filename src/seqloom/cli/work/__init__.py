"""What the verbs do. A verb's own file has its options and imports these when it runs, so that help loads little."""
