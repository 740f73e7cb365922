"""What goes wrong on purpose: rules, the plan that draws from them, and what each fault does to an answer."""
