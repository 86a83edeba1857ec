/* Interrupts: exceptions that a signal's handler raises in the midst of our work, Ctrl-C's among them. */
#ifndef TILESTEP_INTERRUPTS_H
#define TILESTEP_INTERRUPTS_H
#include "native.h"

int ts_interrupted(void); /* whether the pending exception is an interrupt, so not the work's own */
PyObject* ts_take_interrupt(void); /* clears it */
int ts_put_off(PyObject** interrupt); /* takes a pending interrupt. Returns: whether there was one, so that the work must be done again */
void ts_forget_error(void); /* clears the pending exception; raises an interrupt later */
void ts_interrupt_later(PyObject* error); /* raises it, if any, when the main thread next runs Python; takes the reference */

#endif
