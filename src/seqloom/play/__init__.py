"""The page in the browser, and completions in OpenAI's form: the only place that imports a web server."""
