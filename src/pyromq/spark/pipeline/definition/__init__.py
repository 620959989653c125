"""What a pipeline is: checked values (`definition`), read from YAML (`yamlfile`), and the plan made of them for Spark's
processes (`plan`); `sdp` writes it as a project of Spark Declarative Pipelines, `template` is one to start from.
"""
