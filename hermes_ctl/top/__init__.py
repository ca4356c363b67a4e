"""`hermesctl top`: one screen that lives. The only importer of textual."""
