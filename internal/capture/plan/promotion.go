package plan

// The promotion of the version: the recipe of the pool names the version.

// keepRecipe ends a capture whose recipe another client has changed meanwhile.
func keepRecipe(f Facts) Decision {
	switch f.Promotion.Recipe {
	case RecipeNewer:
		return fail(Superseded)
	case RecipeChanged:
		return fail(RecipeTaken)
	case RecipeElsewhere, RecipeHere:
	}
	return onward
}

// promote lets the recipe name the version, and then retires versions.
func promote(f Facts) Decision {
	elsewhere := f.Promotion.Recipe == RecipeElsewhere
	switch {
	case elsewhere && f.Promotion.Manual && f.Promotion.Stale:
		return fail(PromotionStale)
	case elsewhere && f.Promotion.Manual:
		return wait(ForPromotion)
	case elsewhere && !f.Promotion.Saved:
		return do(SaveRecipe)
	case elsewhere:
		return do(Promote)
	case f.Promotion.MustRetire:
		return do(Retire)
	}
	return onward
}
