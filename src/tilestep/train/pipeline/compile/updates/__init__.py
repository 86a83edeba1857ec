"""Programs that update parameters: of a stage by itself, of stages that share some, of all stages at once."""
