"""mucc's commands as tools of the Model Context Protocol, for other agents."""
