"""The format figures: typed columns by Penstock, compared with the code that Spark users write today."""
