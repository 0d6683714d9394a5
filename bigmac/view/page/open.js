(() => {
"use strict";
