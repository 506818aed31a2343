// Package budget keeps account of the tokens that diagnoses may spend in a day, so that no crash, failover or edit by
// hand makes the bill larger than was allowed.
//
// What is spent stands in one ConfigMap, which the leader writes. A call is covered before it is made: by its worst
// case, out of a block that is stored as spent already. Whoever takes over counts every stored block as spent.
package budget

import (
	"fmt"
	"time"
)

// Limits are budgets in tokens for a day, which begins at midnight UTC. Zero: no budget.
type Limits struct {
	// PerTenant is what each tenant may spend.
	PerTenant int64
	// All is what all tenants together may spend.
	All int64
}

// MaxLimit bounds a budget, in tokens, so that sums cannot overflow.
const MaxLimit = maxTokens

// ExhaustedError says that too little of a budget is left for a call.
type ExhaustedError struct {
	// Tenant has spent its budget. Empty: all tenants together have.
	Tenant string
	// Limit is the budget, Left what is left of it, Asked what the call may cost; all in tokens.
	Limit, Left, Asked int64
	// Back is when the next day begins.
	Back time.Time
}

// Error tells whose budget it is, when it comes back and what else helps.
func (e *ExhaustedError) Error() string {
	whose, flag := "of all tenants", "--daily-token-budget"
	if e.Tenant != "" {
		whose, flag = "of tenant "+e.Tenant, "--daily-token-budget-per-tenant"
	}
	return fmt.Sprintf("the daily budget of %d tokens %s is used up: %d are left and the next call may cost %d; it comes back at %s, or sooner with a larger %s",
		e.Limit, whose, e.Left, e.Asked, e.Back.Format(time.RFC3339), flag)
}
