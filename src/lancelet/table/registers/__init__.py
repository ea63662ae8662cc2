"""Who took which version, where the store cannot tell: external manifest stores."""
