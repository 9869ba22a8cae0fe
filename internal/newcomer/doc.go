// Package newcomer gathers what package probation judges: a pool's instances, as their cloud tells of them, with what the
// cluster knows of their nodes. It decides nothing, and keeps nothing but what a next look must not forget.
package newcomer
